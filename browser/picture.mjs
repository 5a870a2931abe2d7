// The picture of the README: `node picture.mjs REPORT.html OUT.png`.
import { pathToFileURL } from 'node:url';
import { launch } from './report-check.mjs';

const [report, out] = process.argv.slice(2);
if (out === undefined) {
  console.error('usage: node picture.mjs REPORT.html OUT.png');
  process.exit(2);
}
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 1180, height: 1240 } });
  await page.goto(pathToFileURL(report).href);
  // The matrix with the most to show, and the figure behind it.
  const open = page.locator('details[open] .matrix');
  const matrix = ((await open.count()) > 0 ? open : page.locator('.matrix')).first();
  await matrix.evaluate((element) => {
    const top = (element.closest('details') ?? element).getBoundingClientRect().top + scrollY;
    scrollTo({ top: top - 110, behavior: 'instant' });
  });
  // The picture ends with the section: half of the next figure would say nothing.
  const height = await matrix.evaluate((element) => {
    const headings = [...document.querySelectorAll('h2')].map((heading) => heading.getBoundingClientRect().top);
    return headings.find((top) => top > element.getBoundingClientRect().bottom) - 40;
  });
  await page.screenshot({ path: out, clip: { x: 0, y: 0, width: 1180, height: Math.min(1240, Math.ceil(height)) } });
} finally {
  await browser.close();
}
