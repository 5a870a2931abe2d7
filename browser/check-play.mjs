// Plays with one report: `node check-play.mjs REPORT.html`.
// Exit code 0: all is well; 1: something does not work; 2: bad arguments.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faultsInPlay } from './play-check.mjs';
import { faultsInReading } from './reading-check.mjs';
import { faultsOnPage, launch } from './report-check.mjs';

const USAGE = `usage: node check-play.mjs REPORT.html

Hides policies, reads values, zooms, converts, sorts and asks for sentences in a headless Chromium
(CHROMIUM, or /usr/bin/chromium), with the mouse and with the keyboard; asks axe-core whether everyone
can read the report, in the light and in the dark; and reads it without scripts.`;

const [report, ...rest] = process.argv.slice(2);
if (report === undefined || rest.length > 0 || !statSync(report, { throwIfNoEntry: false })?.isFile()) {
  console.error(`one report that exists is needed\n\n${USAGE}`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), 'agewise-play-'));
let browser;
try {
  browser = await launch();
  const openFile = (file) => (options, inspect) => faultsOnPage(browser, file, options, inspect);
  const open = openFile(report);
  const faults = [...(await faultsInPlay(open)), ...(await faultsInReading(open)), ...(await faultsOfPolicy(openFile))];
  faults.forEach((fault) => console.error(`${report}: ${fault}`));
  if (faults.length === 0) console.log(`${report}: plays well, and axe-core finds nothing`);
  process.exitCode = faults.length === 0 ? 0 : 1;
} catch (error) {
  console.error(`${report}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true });
}

/** A script that is not the one whose hash the page names is not run: neither another one nor ours with a change. */
async function faultsOfPolicy(openFile) {
  const html = readFileSync(report, 'utf8');
  const foreign = html.replace('</main>', '<script>document.title = "foreign"</script></main>');
  const changed = html.replace("'use strict'", "'use strict' ");
  const faults = [];
  for (const [what, page, sign] of [
    ['a foreign script', foreign, (page) => page.title().then((title) => title === 'foreign')],
    ['a changed script', changed, (page) => page.locator('#tools').count().then((count) => count > 0)],
  ]) {
    const file = join(folder, 'changed.html');
    writeFileSync(file, page);
    const isRefusal = (fault) => fault.includes('Content Security Policy');
    const found = await openFile(file)({}, async (page, seen) => {
      // The message may come after the page; a browser that never sends it is found out below.
      for (let wait = 0; wait < 50 && !seen.some(isRefusal); wait += 1) await page.waitForTimeout(100);
      return (await sign(page)) ? [`${what} is run`] : [];
    });
    const isRefused = found.some(isRefusal);
    faults.push(...found.filter((fault) => fault.endsWith('is run')));
    if (!isRefused) faults.push(`${what} is not refused by the policy of the page`);
  }
  return faults;
}
