// What one can do in a report, by doing it: hide a policy, read values, zoom, change the unit of the x axis, sort a table,
// read the sentence of a cell, with the mouse and with the keyboard. Every fault is a sentence.
// A report without the thing that is tried is not at fault: a simulation has no matrix.

const WIDTH = { width: 1440, height: 1000 };

/** Plays with the report on a page of its own; returns what does not work. */
export async function faultsInPlay(open) {
  const faults = [];
  for (const play of [hides, hidesByLegend, reads, readsByKeys, zooms, converts, sorts, tells]) {
    const found = await open({ viewport: WIDTH }, play);
    faults.push(...found.map((fault) => `${play.name}: ${fault}`));
  }
  return faults;
}

/** How many parts of figures with this name can be seen, and how many cannot. */
function countParts(page, name) {
  return page.evaluate((name) => {
    const parts = [...document.querySelectorAll('[data-series]')].filter((part) => part.dataset.series === name);
    const hidden = parts.filter((part) => getComputedStyle(part).display === 'none').length;
    return { seen: parts.length - hidden, hidden };
  }, name);
}

async function hides(page) {
  const chip = page.locator('#tools [data-name]').nth(1);
  if ((await page.locator('#tools').count()) === 0) return ['the page has no tools'];
  const name = await chip.getAttribute('data-name');
  const before = await countParts(page, name);
  await chip.click();
  const after = await countParts(page, name);
  await page.locator('#tools button', { hasText: 'Show all' }).click();
  const again = await countParts(page, name);
  const faults = [];
  if (before.seen === 0 || before.hidden > 0) faults.push(`${name} is drawn ${before.seen} times and hidden ${before.hidden} times`);
  if (after.seen > 0) faults.push(`${name} is hidden and still drawn ${after.seen} times`);
  if (again.seen !== before.seen) faults.push(`${name} does not come back`);
  return faults;
}

async function hidesByLegend(page) {
  const entry = page.locator('main [data-entry]').first();
  const name = await entry.getAttribute('data-entry');
  await entry.click();
  const pressed = await page.locator(`#tools [data-name="${name}"]`).getAttribute('aria-pressed');
  return pressed === 'false' ? [] : [`a click on the legend does not hide ${name}`];
}

/** The middle of the first plot that can be zoomed, or of any, scrolled into view. */
async function middleOfPlot(page, selector = '.plot') {
  const plot = page.locator(`main ${selector}`).first();
  if ((await plot.count()) === 0) return undefined;
  await plot.evaluate((group) => {
    const box = group.getBoundingClientRect();
    scrollTo({ top: box.top + scrollY - 300, behavior: 'instant' });
  });
  const box = await plot.evaluate((group) => {
    const svg = group.ownerSVGElement.getBoundingClientRect();
    const scale = svg.width / group.ownerSVGElement.viewBox.baseVal.width;
    const [left, top, width, height] = group.dataset.place.split(' ').map((number) => Number(number) * scale);
    return { x: svg.left + left, y: svg.top + top, width, height };
  });
  return { ...box, middle: { x: box.x + box.width / 2, y: box.y + box.height / 2 } };
}

/** Names and values that are shown. */
async function readings(page) {
  const shown = page.locator('#reading');
  return (await shown.isVisible()) ? shown.locator('div').allTextContents() : [];
}

async function reads(page) {
  const { middle } = await middleOfPlot(page);
  await page.mouse.move(middle.x, middle.y);
  await page.locator('#reading').waitFor({ timeout: 3000 }).catch(() => {});
  const shown = await readings(page);
  const faults = [];
  if (shown.length === 0) faults.push('no values under the cursor');
  if (!shown.every((line) => /: -?[\d.]/.test(line))) faults.push(`values that are no numbers: ${shown.join('; ')}`);
  if ((await page.locator('.hair').count()) !== 1) faults.push('no line at the values');
  await page.mouse.move(2, 2);
  if ((await readings(page)).length > 0) faults.push('the values stay when the cursor leaves');
  return faults;
}

async function readsByKeys(page) {
  const chart = page.locator('main .chart', { has: page.locator('.plot') }).first();
  await chart.focus();
  await page.keyboard.press('ArrowRight');
  const first = await page.locator('#reading strong').textContent();
  for (let step = 0; step < 4; step += 1) await page.keyboard.press('ArrowRight');
  const later = await page.locator('#reading strong').textContent();
  await page.keyboard.press('Escape');
  const faults = first === later ? [`arrows do not move from ${first}`] : [];
  if (await page.locator('#reading').isVisible()) faults.push('Escape does not end the reading');
  return faults;
}

/** The numbers along the x axis of the first plot that can be zoomed, and its first line. */
function zoomable(page) {
  return page.evaluate(() => {
    const plot = document.querySelector('main .plot[data-zoom]');
    return {
      ticks: [...plot.querySelectorAll('.x-axis text')].map((text) => Number(text.textContent.replace('−', '-'))),
      line: plot.querySelector('[data-series] path[fill="none"]').getAttribute('d'),
      title: plot.querySelector('.x-name').textContent,
    };
  });
}

async function zooms(page) {
  const plot = await middleOfPlot(page, '.plot[data-zoom]');
  if (plot === undefined) return [];
  const before = await zoomable(page);
  await page.mouse.move(plot.x + plot.width * 0.3, plot.middle.y);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.6, plot.middle.y, { steps: 5 });
  await page.mouse.up();
  const after = await zoomable(page);
  const [from, to] = await page.locator('#tools input').evaluateAll((inputs) => inputs.map((input) => Number(input.value)));
  const faults = [];
  const most = Math.max(...before.ticks);
  if (!(from > 0.2 * most && to < 0.7 * most && from < to)) faults.push(`zoomed to ${from} to ${to}, of ${most}`);
  if (!after.ticks.every((tick) => tick >= from && tick <= to)) faults.push(`ticks out of view: ${after.ticks}`);
  if (after.ticks.length < 2) faults.push(`${after.ticks.length} ticks`);
  if (after.line === before.line) faults.push('the lines stay as they were');
  await page.locator('#tools input').first().fill('0');
  await page.keyboard.press('Tab');
  const widened = await zoomable(page);
  if (widened.ticks[0] !== 0) faults.push('the fields do not change what is shown');
  await page.locator('#tools button', { hasText: 'Show all' }).click();
  const again = await zoomable(page);
  if (again.line !== before.line || String(again.ticks) !== String(before.ticks)) faults.push('it does not come back as it was');
  return faults;
}

async function converts(page) {
  const select = page.locator('#tools select');
  if ((await select.count()) === 0) return [];
  const faults = [];
  const look = () =>
    page.evaluate(() => {
      const plots = [...document.querySelectorAll('main .plot[data-zoom="units"]')];
      const lines = plots.flatMap((plot) => [...plot.querySelectorAll('[data-series] path[fill="none"]')]);
      return {
        titles: plots.map((plot) => plot.querySelector('.x-name').textContent),
        line: lines.map((line) => line.getAttribute('d')).join(' '),
      };
    });
  const before = await look();
  for (const unit of await select.locator('option').allTextContents()) {
    await select.selectOption(unit);
    const { titles, line } = await look();
    // An experiment that has no such unit stays as it is.
    const changed = titles.filter((title, index) => title !== before.titles[index]).length;
    if (changed > 0 !== (unit !== 'rounds')) faults.push(`in ${unit} ${changed} axes have another name`);
    if (/NaN|Infinity/.test(line)) faults.push(`in ${unit} a line has places that are no numbers`);
  }
  return faults;
}

async function sorts(page) {
  const table = page.locator('main .table:not(.matrix) table').first();
  const heading = table.locator('thead th').nth(1);
  const column = async () => {
    const cells = await table.locator('tbody tr td:nth-child(2)').allTextContents();
    return cells.map((cell) => parseFloat(cell));
  };
  const names = () => table.locator('tbody th').allTextContents();
  const first = await names();
  await heading.locator('button').click();
  const rising = (await column()).filter((value) => !Number.isNaN(value));
  const faults = [];
  if ((await heading.getAttribute('aria-sort')) !== 'ascending') faults.push('the order is not said');
  if (rising.some((value, index) => index > 0 && value < rising[index - 1])) faults.push(`not in order: ${rising}`);
  await heading.locator('button').click();
  const falling = (await column()).filter((value) => !Number.isNaN(value));
  if (falling.some((value, index) => index > 0 && value > falling[index - 1])) faults.push(`not in falling order: ${falling}`);
  await heading.locator('button').click();
  if (String(await names()) !== String(first)) faults.push('the first order does not come back');
  return faults;
}

async function tells(page) {
  const link = page.locator('main .matrix a').first();
  if ((await link.count()) === 0) return [];
  const told = page.locator('main .matrix .told').first();
  const before = await told.textContent();
  await link.hover();
  const hovered = await told.textContent();
  const hash = await link.getAttribute('href');
  const other = page.locator(`main .matrix >> nth=0 >> a:not([href="${hash}"])`).first();
  const hasOther = (await other.count()) > 0;
  if (hasOther) await other.focus();
  const focused = await told.textContent();
  const faults = [];
  if (hovered === before || !hovered.endsWith('.')) faults.push(`pointing at a cell tells "${hovered}"`);
  if (hasOther && focused === hovered) faults.push('the focus on a cell tells nothing new');
  await link.click();
  if (new URL(page.url()).hash !== '') faults.push('a click jumps away although there is a script');
  return faults;
}
