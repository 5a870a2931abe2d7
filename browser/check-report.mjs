// Checks one report: `node check-report.mjs REPORT.html EXPECTED_FIGURES [SCREENSHOT_PREFIX]`.
// Exit code 0: all is well; 1: the report is broken; 2: bad arguments.
import { statSync } from 'node:fs';
import { faultsOf, launch } from './report-check.mjs';

const USAGE = `usage: node check-report.mjs REPORT.html EXPECTED_FIGURES [SCREENSHOT_PREFIX]

Opens the report in a headless Chromium (CHROMIUM, or /usr/bin/chromium) on a wide and on a narrow
screen and in the dark, prints it, and says what is wrong with it. With a prefix, PREFIX-wide.png,
PREFIX-dark.png and PREFIX-narrow.png show the whole page.`;

function refuse(reason) {
  console.error(`${reason}\n\n${USAGE}`);
  process.exit(2);
}

const [report, figures, screenshotPrefix, ...rest] = process.argv.slice(2);
if (figures === undefined) refuse('a report and the number of its figures are needed');
if (rest.length > 0) refuse(`too many arguments: ${rest.join(' ')}`);
if (!/^\d+$/.test(figures)) refuse(`expected figures: a whole number, not "${figures}"`);
if (screenshotPrefix === '') refuse('the prefix of the screenshots is empty');
if (!statSync(report, { throwIfNoEntry: false })?.isFile()) refuse(`no file at "${report}"`);

let browser;
try {
  browser = await launch();
  const faults = await faultsOf(browser, report, Number(figures), screenshotPrefix);
  faults.forEach((fault) => console.error(`${report}: ${fault}`));
  if (faults.length === 0) console.log(`${report}: fine, ${figures} figures`);
  process.exitCode = faults.length === 0 ? 0 : 1;
} catch (error) {
  console.error(`${report}: ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser?.close();
}
