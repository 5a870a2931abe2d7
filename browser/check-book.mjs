// Checks the site of the docs (`book/build`): `node check-book.mjs FOLDER [SCREENSHOT_PREFIX]`.
// Read from the disk and without a network, its pages show no error and ask for nothing, and its search finds.
// Exit code 0: all is well; 1: it is not; 2: bad arguments.
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch } from './report-check.mjs';

const [folder, prefix] = process.argv.slice(2);
if (folder === undefined || !statSync(join(folder, 'index.html'), { throwIfNoEntry: false })?.isFile()) {
  console.error('usage: node check-book.mjs FOLDER [SCREENSHOT_PREFIX]');
  process.exit(2);
}
/** Words, each with the page that has to be among the first that are found. */
const SEARCHES = [
  ['calls_per_second', 'configuration.html'],
  ['Holm correction', 'compare.html'],
  ['turnaround', 'real-conditions.html'],
];
const WIDTHS = [1440, 390];

const root = pathToFileURL(`${resolve(folder)}/`).href;
const faults = [];
const browser = await launch();
try {
  const context = await browser.newContext({ offline: true });
  for (const name of readdirSync(folder).filter((name) => name.endsWith('.html') && !['404.html', 'toc.html', 'print.html'].includes(name))) {
    await onPage(context, name, async (page) => {
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 900 });
        const content = await page.evaluate(() => document.documentElement.scrollWidth);
        if (content > width) faults.push(`${name}: the page scrolls sideways, ${content} px of content at ${width}`);
      }
      const broken = await page.locator('main img').evaluateAll((images) => images.filter((image) => image.naturalWidth === 0).length);
      if (broken > 0) faults.push(`${name}: ${broken} pictures are not shown`);
    });
  }
  for (const [words, expected] of SEARCHES) {
    await onPage(context, 'index.html', async (page) => {
      await page.setViewportSize({ width: WIDTHS[0], height: 900 });
      await page.locator('#mdbook-search-toggle, #search-toggle').click();
      await page.keyboard.type(words);
      const results = page.locator('#mdbook-searchresults a, #searchresults a');
      await results.first().waitFor({ timeout: 20_000 }).catch(() => {});
      const found = await results.evaluateAll((links) => links.slice(0, 10).map((link) => link.getAttribute('href')));
      if (!found.some((link) => link.includes(expected))) faults.push(`"${words}" finds ${found.join(', ') || 'nothing'}, not ${expected}`);
      if (prefix !== undefined) await page.screenshot({ path: `${prefix}-${expected}.png` });
    });
  }
} catch (error) {
  faults.push(error.message.split('\n')[0]);
} finally {
  await browser.close();
}
faults.forEach((fault) => console.error(`${folder}: ${fault}`));
if (faults.length === 0) console.log(`${folder}: fine, and its search works without a network`);
process.exitCode = faults.length === 0 ? 0 : 1;

/** Opens a page of the site and notes errors and requests to anywhere else. */
async function onPage(context, name, inspect) {
  const page = await context.newPage();
  page.on('console', (message) => message.type() === 'error' && faults.push(`${name}: console error: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`${name}: page error: ${error.message}`));
  page.on('request', (request) => {
    const target = request.url();
    if (!target.startsWith(root) && !target.startsWith('data:')) faults.push(`${name}: request: ${target}`);
  });
  await page.goto(root + name, { waitUntil: 'load' });
  await inspect(page);
  await page.close();
}
