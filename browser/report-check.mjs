// What has to hold of a report in a browser, whoever made it: the page is read as a user sees it,
// and every fault is a sentence. The caller decides what to do with them.
import { existsSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const SCREENS = [
  { name: 'wide', width: 1440, height: 1000 },
  { name: 'dark', width: 1440, height: 1000, colorScheme: 'dark' },
  { name: 'narrow', width: 390, height: 844 },
];

/** Smaller than this, a figure shows nothing that anyone could read. */
const SMALLEST_FIGURE_PX = 50;

/** Starts the browser that the environment names. */
export function launch() {
  const executablePath = process.env.CHROMIUM || '/usr/bin/chromium';
  if (!existsSync(executablePath)) {
    throw new Error(`no Chromium at ${executablePath}: set CHROMIUM to the path of one`);
  }
  return chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  });
}

/** Opens the report on each screen and prints it; returns what is wrong with it. */
export async function faultsOf(browser, report, expectedFigures, screenshotPrefix) {
  const faults = [];
  for (const { name, width, height, colorScheme } of SCREENS) {
    const options = { viewport: { width, height }, colorScheme };
    const found = await faultsOnPage(browser, report, options, async (page) => {
      const seen = await page.evaluate(look, SMALLEST_FIGURE_PX);
      if (screenshotPrefix !== undefined) {
        await page.screenshot({ path: `${screenshotPrefix}-${name}.png`, fullPage: true });
      }
      return faultsSeen(seen, expectedFigures).concat(faultsOfLinks(report, seen.links));
    });
    faults.push(...found.map((fault) => `${name} (${width} px): ${fault}`));
  }
  const found = await faultsOnPage(browser, report, { viewport: null }, async (page) =>
    faultsInPrint(await page.pdf({ format: 'A4' })),
  );
  faults.push(...found.map((fault) => `print: ${fault}`));
  // Paper is white, whatever the screen was before.
  const ofDark = await faultsOnPage(browser, report, { viewport: null, colorScheme: 'dark' }, async (page) =>
    faultsInPrint(await page.pdf({ format: 'A4' })).concat(await faultsInPrintedColours(page)),
  );
  faults.push(...ofDark.map((fault) => `print after the dark: ${fault}`));
  return faults;
}

/** Opens the report afresh; returns what `inspect` finds, which is told what was seen so far, and every error and request. */
export async function faultsOnPage(browser, report, options, inspect) {
  const address = pathToFileURL(report).href;
  // Offline, a request is still seen here, but a broken report reaches nobody.
  const context = await browser.newContext({ ...options, offline: true });
  try {
    const page = await context.newPage();
    const faults = [];
    watch(page, address, faults);
    // Idle rather than loaded: what a script asks for later counts, too.
    await page.goto(address, { waitUntil: 'networkidle' });
    faults.push(...(await inspect(page, faults)));
    return faults;
  } finally {
    await context.close();
  }
}

/** Notes errors and requests from the first moment on. */
function watch(page, ownAddress, faults) {
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console error: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`page error: ${error.message}`));
  page.on('websocket', (socket) => faults.push(`request: ${socket.url()}`));
  page.on('request', (request) => {
    const address = request.url();
    // A data: address is part of the file.
    if (address !== ownAddress && !address.startsWith('data:')) faults.push(`request: ${address}`);
  });
}

/** Runs inside the page, so it can use nothing from this file. */
function look(smallestFigure) {
  const root = document.documentElement;
  const isVisible = (svg) => {
    const { width, height } = svg.getBoundingClientRect();
    const style = getComputedStyle(svg);
    const isHidden = svg.getClientRects().length === 0 || style.visibility !== 'visible';
    return !isHidden && width > smallestFigure && height > smallestFigure;
  };
  const scrollsAlone = (element) => {
    for (let at = element; at !== null && at !== document.body; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== 'visible') return true;
    }
    return false;
  };
  const sticksOut = (element) =>
    element.getBoundingClientRect().right > root.clientWidth + 0.5 && !scrollsAlone(element);
  const describe = (element) =>
    `<${element.localName}> "${element.textContent.trim().replace(/\s+/g, ' ').slice(0, 60)}"`;
  const leadsNowhere = (link) => document.getElementById(link.getAttribute('href').slice(1)) === null;
  const links = [...document.querySelectorAll('a')];
  const isInPage = (link) => (link.getAttribute('href') ?? '').startsWith('#');
  const headings = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')];
  return {
    visibleFigures: [...document.querySelectorAll('figure')].filter((figure) =>
      [...figure.querySelectorAll('svg')].some(isVisible),
    ).length,
    figures: document.querySelectorAll('figure').length,
    pageWidth: root.clientWidth,
    contentWidth: Math.max(root.scrollWidth, document.body.scrollWidth),
    outside: [...document.body.querySelectorAll('*')].filter(sticksOut).slice(-1).map(describe),
    headings: headings.length,
    emptyHeadings: headings
      .filter((heading) => heading.textContent.trim() === '')
      .map((heading) => heading.outerHTML.slice(0, 80)),
    deadLinks: links.filter((link) => isInPage(link) && leadsNowhere(link)).map((link) => link.outerHTML.slice(0, 80)),
    links: links.filter((link) => !isInPage(link)).map((link) => link.getAttribute('href') ?? ''),
  };
}

function faultsSeen(seen, expectedFigures) {
  const faults = [];
  if (seen.visibleFigures !== expectedFigures) {
    faults.push(
      `${seen.visibleFigures} figures with a visible svg (of ${seen.figures} figures), expected ${expectedFigures}`,
    );
  }
  if (seen.contentWidth > seen.pageWidth) {
    const culprit = seen.outside.map((element) => `, for example ${element}`).join('');
    faults.push(`the page scrolls sideways: ${seen.contentWidth} px of content${culprit}`);
  }
  if (seen.headings === 0) faults.push('no heading');
  faults.push(...seen.emptyHeadings.map((heading) => `heading without text: ${heading}`));
  faults.push(...seen.deadLinks.map((link) => `link that leads nowhere: ${link}`));
  return faults;
}

/** Links to files lead to files beside the report. */
function faultsOfLinks(report, links) {
  const leadsSomewhere = (link) => {
    const target = new URL(link, pathToFileURL(report));
    return target.protocol === 'file:' && existsSync(fileURLToPath(target));
  };
  return links.filter((link) => !leadsSomewhere(link)).map((link) => `link to a file that is not there: ${link}`);
}

/** A dark page would be printed as a black sheet, or as pale letters on white. */
async function faultsInPrintedColours(page) {
  await page.emulateMedia({ media: 'print' });
  const [ground, ink] = await page.evaluate(() => {
    const { backgroundColor, color } = getComputedStyle(document.body);
    // What has no ground of its own is printed on paper.
    const isClear = /, 0\)$/.test(backgroundColor);
    const sum = (text) => text.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
    return [isClear ? 765 : sum(backgroundColor), sum(color)];
  });
  return ground > 700 && ink < 300 ? [] : [`ground ${ground} and text ${ink} of 765`];
}

/** Chromium writes page and font objects uncompressed, so no PDF reader is needed to count them. */
function faultsInPrint(pdf) {
  const text = pdf.toString('latin1');
  const pages = text.match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  if (!text.startsWith('%PDF-') || pages === 0) return ['no page in the PDF'];
  // A page without a font has no text.
  return /\/Type\s*\/Font\b/.test(text) ? [] : ['the PDF is empty'];
}
