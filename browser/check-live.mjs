// Checks the live page of a running coordinator: `node check-live.mjs URL PID [SCREENSHOT_PREFIX]`.
// Exit code 0: all is well; 1: the page is broken; 2: bad arguments.
import { launch } from './report-check.mjs';

const USAGE = `usage: node check-live.mjs URL PID [SCREENSHOT_PREFIX]

Opens the page in a headless Chromium (CHROMIUM, or /usr/bin/chromium) at several widths, watches it
while rounds go by, takes the network away and gives it back, and at the end KILLS the coordinator
(PID) to see whether the page says so. With a prefix, PREFIX-WIDTH.png show the whole page.`;

const WIDTHS = [360, 768, 1440];
const FIGURES = [
  'Test accuracy',
  'Test loss',
  'Cohort size',
  'Time of a round',
  'Late and refused',
  'Rounds between two reports',
  'Ages',
];
const TABLES = ['Clients that wait longest', 'The last rounds'];

/** A round may take a while on a busy machine. */
const PATIENCE = 120_000;
/** How long a page that shall not ask is watched. */
const QUIET = 3_500;

function refuse(reason) {
  console.error(`${reason}\n\n${USAGE}`);
  process.exit(2);
}

const [address, pid, screenshotPrefix, ...rest] = process.argv.slice(2);
if (pid === undefined) refuse('the address of the page and the process of the coordinator are needed');
if (rest.length > 0) refuse(`too many arguments: ${rest.join(' ')}`);
if (!/^[1-9]\d*$/.test(pid)) refuse(`process: a number, not "${pid}"`);
if (screenshotPrefix === '') refuse('the prefix of the screenshots is empty');
if (!/^https?:\/\/[^/]+\/?$/.test(address)) refuse(`the address of a coordinator's page, not "${address}"`);
const origin = new URL(address).origin;

const faults = [];
let browser;
try {
  await untilReady();
  browser = await launch();
  for (const width of WIDTHS) await checkWidth(width);
  await checkWithoutScripts();
  await checkFacts();
  await checkOverTime();
} catch (error) {
  faults.push(error.message.split('\n')[0]);
} finally {
  await browser?.close();
}
faults.forEach((fault) => console.error(`${address}: ${fault}`));
if (faults.length === 0) console.log(`${address}: fine, ${FIGURES.length} figures`);
process.exitCode = faults.length === 0 ? 0 : 1;

/** The coordinator may have been started a moment ago. */
async function untilReady() {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) {
    const answer = await fetch(`${origin}/readyz`).catch(() => undefined);
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error('the coordinator does not become ready');
}

/** Opens the page and notes errors and foreign requests, as long as `watcher.isOn`. */
async function open(options, name) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const watcher = { isOn: true, asked: 0 };
  const note = (fault) => watcher.isOn && faults.push(`${name}: ${fault}`);
  page.on('console', (message) => {
    if (message.type() === 'error') note(`console error: ${message.text()}`);
  });
  page.on('pageerror', (error) => note(`page error: ${error.message}`));
  page.on('websocket', (socket) => note(`request: ${socket.url()}`));
  page.on('request', (request) => {
    const target = request.url();
    if (target.startsWith(`${origin}/live?`)) watcher.asked += 1;
    if (!target.startsWith(`${origin}/`) && !target.startsWith('data:')) note(`request: ${target}`);
  });
  const response = await page.goto(address, { waitUntil: 'load' });
  if (!(response.headers()['content-security-policy'] ?? '').includes("default-src 'none'")) {
    note('no strict Content-Security-Policy');
  }
  return { context, page, watcher };
}

/** Waits until a condition holds in the page; what did not happen is a fault. */
async function until(page, condition, argument, fault) {
  try {
    await page.waitForFunction(condition, argument, { timeout: PATIENCE, polling: 200 });
    return true;
  } catch {
    faults.push(fault);
    return false;
  }
}

function roundOf(page) {
  return page.evaluate(() => Number(document.querySelector('#now').dataset.round));
}

async function checkWidth(width) {
  const name = `${width} px`;
  const { context, page } = await open({ viewport: { width, height: 900 } }, name);
  // The first round may not be over yet.
  await until(
    page,
    (count) => document.querySelectorAll('#past figure svg').length === count,
    FIGURES.length,
    `${name}: not ${FIGURES.length} figures`,
  );
  const seen = await page.evaluate(look);
  for (const title of FIGURES) {
    const figure = seen.figures.find((figure) => figure.title === title);
    if (figure === undefined) faults.push(`${name}: no figure "${title}"`);
    else if (figure.width < 250 || figure.height < 150) faults.push(`${name}: "${title}" is too small`);
  }
  for (const caption of TABLES) {
    if (!seen.tables.includes(caption)) faults.push(`${name}: no table "${caption}"`);
  }
  if (seen.keyFigures < 6) faults.push(`${name}: ${seen.keyFigures} key figures, expected 6`);
  if (seen.state === '') faults.push(`${name}: the state is not said`);
  if (seen.contentWidth > width) {
    faults.push(`${name}: the page scrolls sideways, ${seen.contentWidth} px of content`);
  }
  if (screenshotPrefix !== undefined) {
    await page.screenshot({ path: `${screenshotPrefix}-${width}.png`, fullPage: true });
  }
  await context.close();
}

/** Runs inside the page, so it can use nothing from this file. */
function look() {
  const size = (svg) => svg.getBoundingClientRect();
  return {
    figures: [...document.querySelectorAll('#past figure')].map((figure) => ({
      title: figure.querySelector('.chart').getAttribute('aria-label'),
      width: size(figure.querySelector('svg')).width,
      height: size(figure.querySelector('svg')).height,
    })),
    tables: [...document.querySelectorAll('#past .caption')].map((caption) => caption.textContent),
    keyFigures: document.querySelectorAll('#now dl > div').length,
    state: document.querySelector('#now h2')?.textContent.trim() ?? '',
    contentWidth: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
  };
}

async function checkWithoutScripts() {
  const name = 'without scripts';
  const { context, page } = await open({ javaScriptEnabled: false }, name);
  const figures = await page.locator('#past figure svg').count();
  if (figures !== FIGURES.length) faults.push(`${name}: ${figures} figures`);
  const html = await page.content();
  if (!html.includes('http-equiv="refresh"')) faults.push(`${name}: the page never changes`);
  await context.close();
}

async function checkFacts() {
  const facts = await (await fetch(`${origin}/api/state.json`)).json();
  for (const key of ['run', 'state', 'live', 'last_rounds', 'ages', 'waiting_longest']) {
    if (!(key in facts)) faults.push(`state.json: no "${key}"`);
  }
  const refused = await fetch(address, { method: 'POST' });
  if (refused.status !== 405) faults.push(`POST: status ${refused.status}, expected 405`);
}

/** Rounds go by, the network goes and comes, nobody looks, the coordinator dies. */
async function checkOverTime() {
  const { context, page, watcher } = await open({}, 'over time');
  await page.evaluate(() => {
    window.wasNotLoadedAgain = true;
    window.scrollTo({ top: 500, behavior: 'instant' });
  });
  const before = await page.evaluate(() => window.scrollY);
  const round = await roundOf(page);
  const hasAdvanced = (round) => Number(document.querySelector('#now').dataset.round) > round;
  await until(page, hasAdvanced, round, `the page stays in round ${round}`);
  const after = await page.evaluate(() => (window.wasNotLoadedAgain ? window.scrollY : NaN));
  if (after !== before) faults.push(`the page was scrolled to ${before}, and now to ${after}`);

  const isGone = () => /cannot be reached since \d/.test(document.querySelector('#gone:not([hidden])')?.textContent ?? '');
  const isBack = () => document.getElementById('gone').hidden;
  // Failed requests are errors on the console, and expected from here on.
  watcher.isOn = false;
  await context.setOffline(true);
  await until(page, isGone, null, 'without a network the page does not say so');
  await context.setOffline(false);
  await until(page, isBack, null, 'the page does not recover when the network is back');

  const hide = (isHidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event('visibilitychange'));
  };
  await page.evaluate(hide, true);
  await page.waitForTimeout(QUIET);
  const asked = watcher.asked;
  await page.waitForTimeout(QUIET);
  if (watcher.asked > asked) faults.push('a hidden page goes on asking');
  const last = await roundOf(page);
  await page.evaluate(hide, false);
  await until(page, hasAdvanced, last, 'the page does not go on when it is shown again');

  process.kill(Number(pid), 'SIGKILL');
  await until(page, isGone, null, 'the coordinator is gone, and the page does not say so');
  if (screenshotPrefix !== undefined) await page.screenshot({ path: `${screenshotPrefix}-gone.png` });
  await context.close();
}
