// Watches a run that is shown while it goes on: `node check-serve.mjs URL COMMAND...`.
// The command makes the run go on. Exit code 0: all is well; 1: it is not; 2: bad arguments.
import { spawnSync } from 'node:child_process';
import { runAxe } from './reading-check.mjs';
import { launch } from './report-check.mjs';

const [address, program, ...args] = process.argv.slice(2);
if (program === undefined) {
  console.error('usage: node check-serve.mjs URL COMMAND...');
  process.exit(2);
}
/** Only a hang reaches this. */
const PATIENCE = 120_000;

const faults = [];
let browser;
try {
  await untilThere();
  browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.on('console', (message) => message.type() === 'error' && faults.push(`console error: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`page error: ${error.message}`));
  page.on('request', (request) => {
    const target = request.url();
    if (!target.startsWith(address) && !target.startsWith('data:')) faults.push(`request: ${target}`);
  });
  await page.goto(address, { waitUntil: 'load' });
  const chip = page.locator('#tools [data-name]').first();
  const name = await chip.getAttribute('data-name');
  await chip.click();
  const version = () => page.evaluate(() => document.getElementById('past').dataset.version);
  const before = await version();
  const result = spawnSync(program, args, { encoding: 'utf8' });
  if (result.status !== 0) faults.push(`${program} ${args.join(' ')}: ${result.stderr}`);
  await page
    .waitForFunction((before) => document.getElementById('past').dataset.version !== before, before, { timeout: PATIENCE, polling: 200 })
    .catch(() => faults.push('the page does not follow the run'));
  const seen = await page.evaluate((name) => {
    const parts = [...document.querySelectorAll('[data-series]')].filter((part) => part.dataset.series === name);
    const figures = document.querySelectorAll('main .chart').length;
    return { parts: parts.length, shown: parts.filter((part) => part.style.display !== 'none').length, figures };
  }, name);
  if (seen.parts === 0 || seen.figures === 0) faults.push('the new report has no figures');
  if (seen.shown > 0) faults.push(`${name} was clicked away, and is back after the run went on`);
  if ((await page.locator('#tools').count()) !== 1) faults.push('the tools are not there once');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    faults.push(...(await runAxe(page)).map((fault) => `${colorScheme}: ${fault}`));
  }
} catch (error) {
  faults.push(error.message.split('\n')[0]);
} finally {
  await browser?.close();
}
faults.forEach((fault) => console.error(`${address}: ${fault}`));
if (faults.length === 0) console.log(`${address}: follows the run, and axe-core finds nothing`);
process.exitCode = faults.length === 0 ? 0 : 1;

/** The program may have been started a moment ago. */
async function untilThere() {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) {
    const answer = await fetch(address).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error('the report is not shown');
}
