// Whether everyone can read a report: axe-core finds nothing at any level, in the light and in the dark, and without
// scripts nothing is missing.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const LEVELS = ['wcag2a', 'wcag2aa', 'wcag2aaa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa', 'best-practice'];
const SCHEMES = ['light', 'dark'];
const WIDTHS = [1440, 400];

/** What keeps someone from reading the report. */
export async function faultsInReading(open) {
  const faults = [];
  for (const colorScheme of SCHEMES) {
    for (const width of WIDTHS) {
      const found = await open({ colorScheme, viewport: { width, height: 900 } }, runAxe);
      faults.push(...found.map((fault) => `${colorScheme}, ${width} px: ${fault}`));
    }
  }
  faults.push(...(await open({ colorScheme: 'dark' }, isDark)));
  faults.push(...(await open({ javaScriptEnabled: false }, withoutScripts)).map((fault) => `without scripts: ${fault}`));
  return faults;
}

/** What axe-core finds on a page, everything unfolded. */
export async function runAxe(page) {
  // What is folded away is read, too.
  await page.evaluate(() => document.querySelectorAll('details').forEach((details) => (details.open = true)));
  await page.evaluate(AXE);
  const violations = await page.evaluate(async (values) => {
    const results = await window.axe.run(document, { runOnly: { type: 'tag', values } });
    return results.violations.map(({ id, nodes }) => ({ id, count: nodes.length, first: nodes[0].html.slice(0, 100) }));
  }, LEVELS);
  return violations.map(({ id, count, first }) => `axe: ${id}, ${count} times, for example ${first}`);
}

async function isDark(page) {
  const lightness = await page.evaluate(() => {
    const sum = (color) => color.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    const text = document.querySelector('.chart svg text');
    return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color, getComputedStyle(text).fill].map(sum);
  });
  const [ground, ink, label] = lightness;
  return ground < 150 && ink > 500 && label > 400 ? [] : [`not dark: ground ${ground}, text ${ink}, labels ${label} of 765`];
}

/** The page is complete: figures, tables, and a sentence behind each cell. */
async function withoutScripts(page) {
  const faults = [];
  if ((await page.locator('#tools').count()) > 0) faults.push('there are tools that do nothing');
  const links = await page.locator('.matrix a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  for (const link of links) {
    const sentence = await page.locator(`[id="${link.slice(1)}"]`).textContent({ timeout: 1000 });
    if (!sentence.endsWith('.')) faults.push(`${link} leads to "${sentence}"`);
  }
  if (links.length > 0) {
    await page.locator('.matrix a').first().click();
    const isOpen = await page.locator(`[id="${links[0].slice(1)}"]`).isVisible();
    if (!isOpen) faults.push('the sentence of a cell is not shown when one follows the link');
  }
  return faults;
}
