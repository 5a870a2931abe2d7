// Makes a report one can play with: hides series, reads values, zooms, changes units, sorts tables, shows sentences.
// The page is complete without it. It knows the groups of our figures (data-series, data-place, ...) and not what they show.
'use strict';
(() => {
  const ROUNDS = 'rounds';
  const all = (at, selector) => [...at.querySelectorAll(selector)];
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const ascending = (one, other) => one - other;
  const on = (at, names, act) => names.split(' ').forEach((name) => at.addEventListener(name, act));
  const set = (element, attributes) => Object.entries(attributes).forEach((pair) => element.setAttribute(...pair));

  /** An element; those with a dot before their name are drawn. */
  function make(tag, attributes, ...children) {
    const element = tag[0] === '.' ? document.createElementNS('http://www.w3.org/2000/svg', tag.slice(1)) : document.createElement(tag);
    set(element, attributes);
    element.append(...children);
    return element;
  }

  // What is chosen: one choice for all figures.
  const hidden = new Set();
  let unitName = ROUNDS;
  let range = null;
  // The plots of all figures, the one that is read, and the one that is being zoomed.
  let plots = [];
  let cursor = null;
  let drag = null;

  // ---- Figures as numbers

  function axisOf(text, from, length) {
    const [low, high, scale] = text.split(' ');
    return { low: +low, high: +high, log: scale === 'log', from, length };
  }
  const scaled = ({ log }, value) => (log ? Math.log10(value) : value);
  function ends(axis) {
    const low = scaled(axis, axis.low);
    return [low, scaled(axis, axis.high) - low];
  }
  function place(axis, value) {
    const [low, span] = ends(axis);
    return axis.from + ((scaled(axis, value) - low) / span) * axis.length;
  }
  function valueAt(axis, position) {
    const [low, span] = ends(axis);
    const value = low + ((position - axis.from) / axis.length) * span;
    return axis.log ? 10 ** value : value;
  }
  const PAIR = /([ML])(-?[\d.]+),(-?[\d.]+)/g;
  const pointsOf = (d) => [...d.matchAll(PAIR)].map(([, , x, y]) => [+x, +y]);

  function readPlot(group, units) {
    const [left, top, width, height, from, length] = group.dataset.place.split(' ').map(Number);
    const x = axisOf(group.dataset.x, from, length);
    const y = axisOf(group.dataset.y, top + height, -height);
    const kind = group.dataset.zoom;
    const plot = { group, kind, units: kind === 'units' ? units : [], left, top, width, height, x, y, x0: x, y0: y, series: {}, paths: [] };
    for (const part of all(group, '[data-series]')) {
      const name = part.dataset.series;
      const series = (plot.series[name] ??= { line: [], marks: [], band: new Map() });
      for (const path of all(part, 'path')) {
        const first = path.getAttribute('d');
        // What is out of view is kept for when it comes into view.
        const d = path.dataset.all ?? first;
        plot.paths.push({ path, d, first, name });
        const fill = path.getAttribute('fill');
        series.color ??= fill === 'none' ? path.getAttribute('stroke') : fill;
        if (path.dataset.at) series.marks.push(...pointsOf(`M${path.dataset.at.replaceAll(' ', 'L')}`));
        else if (fill === 'none') series.line.push(...pointsOf(d));
        else for (const [at, edge] of pointsOf(d)) series.band.set(at, [...(series.band.get(at) ?? []), edge]);
      }
    }
    if (kind) prepare(plot);
    follow(plot, (at) => at, (at) => at);
    return plot;
  }

  /** What changes with the axes: kept as it was drawn, and cut at the border of the plot. */
  function prepare(plot) {
    const { group, left, top, width, height } = plot;
    plot.axes = ['x', 'y'].map((name) => {
      const axis = group.querySelector(`.${name}-axis`);
      return { name, axis, parts: [...axis.children], text: axis.querySelector('text') };
    });
    plot.title = group.querySelector('.x-name text');
    plot.levels = all(group, '.level').map((level) => [level, +(level.firstElementChild.getAttribute('y1') ?? level.firstElementChild.getAttribute('y'))]);
    const parts = all(group, '[data-series]');
    const box = { x: left, y: top - 2, width, height: height + 4 };
    const frame = make('.svg', { ...box, viewBox: Object.values(box).join(' ') });
    parts[0]?.before(frame);
    frame.append(...parts);
  }

  /** Where the points of all series are now, for the cursor and the arrow keys. */
  function follow(plot, toX, toY) {
    const value = (position) => valueAt(plot.y0, position);
    plot.shown = Object.entries(plot.series).map(([name, { line, marks, band, color }]) => {
      const points = (line.length ? line : marks).map(([x, y]) => ({
        x: toX(x, name),
        y: toY(y),
        value: value(y),
        band: band.get(x)?.map(value).sort(ascending),
      }));
      return { name, color, points: points.filter(({ x }) => x >= plot.left && x <= plot.left + plot.width) };
    });
    plot.shown = plot.shown.filter(({ name, points }) => points.length && !hidden.has(name));
  }

  // ---- Figures drawn again

  /** The value between knots [round, value], which begin at nothing. */
  function interpolate(knots, round) {
    const next = clamp(knots.findIndex(([at]) => at >= round), 0, knots.length - 1);
    const [x1, y1] = knots[next];
    const [x0, y0] = knots[next - 1] ?? [0, 0];
    return y0 + ((y1 - y0) * (round - x0)) / (x1 - x0);
  }

  const unitOf = ({ units }) => units.find(({ name }) => name === unitName);
  const isZoomed = (plot) => range !== null && (unitOf(plot)?.name ?? ROUNDS) === unitName;

  function redraw(plot) {
    const { x0, y0, series, title } = plot;
    const unit = unitOf(plot);
    const isFirst = !unit && !isZoomed(plot) && hidden.size === 0;
    title.first ??= title.textContent;
    title.textContent = unit?.label ?? title.first;
    const inUnit = (position, name) => {
      const round = valueAt(x0, position);
      return unit?.by[name] ? interpolate(unit.by[name], round) : round;
    };
    // Every point and every edge of a band that is there to be seen.
    const seen = Object.entries(series).flatMap(([name, { line, band }]) => {
      const points = [...line, ...[...band].flatMap(([at, edges]) => edges.map((edge) => [at, edge]))];
      return hidden.has(name) ? [] : points.map(([at, y]) => [inUnit(at, name), valueAt(y0, y)]);
    });
    const x = { ...x0 };
    const y = { ...y0 };
    if (isZoomed(plot)) [x.low, x.high] = range;
    else if (unit && seen.length) [x.low, x.high] = [0, Math.max(...seen.map(([at]) => at))];
    const values = seen.filter(([at]) => at >= x.low && at <= x.high).map(([, value]) => scaled(y, value)).sort(ascending);
    const room = 0.04 * (values.at(-1) - values[0]);
    if (!isFirst && room > 0) {
      [y.low, y.high] = [values[0] - room, values.at(-1) + room].map((value) => (y.log ? 10 ** value : value));
    }
    const toX = (at, name) => place(x, inUnit(at, name));
    const toY = (at) => place(y, valueAt(y0, at));
    for (const { path, d, first, name } of plot.paths) {
      const moved = (_, command, at, height) => `${command}${toX(+at, name).toFixed(2)},${toY(+height).toFixed(2)}`;
      set(path, { d: isFirst ? first : d.replace(PAIR, moved) });
    }
    for (const [level, at] of plot.levels) {
      const to = isFirst ? at : toY(at);
      level.style.display = to < plot.top || to > plot.top + plot.height ? 'none' : '';
      set(level, { transform: `translate(0 ${to - at})` });
    }
    for (const axis of plot.axes) {
      if (isFirst) axis.axis.replaceChildren(...axis.parts);
      else drawAxis(plot, axis, axis.name === 'x' ? x : y);
    }
    Object.assign(plot, { x, y });
    follow(plot, toX, toY);
  }

  function ticksOf({ low, high, log }, most) {
    const good = (values) => values.filter((value) => value >= low && value <= high);
    if (log && high / low > 4) {
      const powers = Array.from({ length: 40 }, (_, index) => 10 ** (index - 20));
      const finer = good(powers.flatMap((power) => [power, 2 * power, 5 * power]));
      return finer.length > most ? good(powers) : finer;
    }
    const power = 10 ** Math.floor(Math.log10((high - low) / most));
    const step = [1, 2, 5, 10].find((factor) => factor * power * most >= high - low) * power;
    return good(Array.from({ length: 30 }, (_, index) => (Math.ceil(low / step) + index) * step));
  }

  function drawAxis({ left, top, width, height }, { name, axis, parts, text }, to) {
    const values = ticksOf(to, Math.abs(to.length) / (name === 'x' ? 60 : 45));
    const lower = name === 'x' ? 0 : 0.36 * text.getAttribute('font-size');
    const line = parts.findLast((part) => part.localName === 'path').cloneNode();
    const lines = values.map((value) => {
      const at = place(to, value).toFixed(2);
      return name === 'x' ? `M${at},${top}v${height}` : `M${left},${at}h${width}`;
    });
    set(line, { d: lines.join('') });
    const labels = values.map((value) => {
      const label = text.cloneNode();
      set(label, { [name]: place(to, value) + lower });
      label.textContent = String(+value.toPrecision(4)).replace('-', '−');
      return label;
    });
    axis.replaceChildren(line, ...labels);
  }

  // ---- What is chosen

  function apply() {
    for (const part of all(document, '[data-series], [data-panel]')) {
      part.style.display = hidden.has(part.dataset.series ?? part.dataset.panel) ? 'none' : '';
    }
    for (const entry of all(document, '[data-entry]')) entry.style.opacity = hidden.has(entry.dataset.entry) ? 0.35 : '';
    for (const chip of all(document, '#tools [data-name]')) set(chip, { 'aria-pressed': !hidden.has(chip.dataset.name) });
    for (const plot of plots) plot.kind ? redraw(plot) : follow(plot, (at) => at, (at) => at);
    all(document, '#tools input').forEach((input, end) => (input.value = range ? +range[end].toPrecision(4) : ''));
    read();
  }

  function toggle(name) {
    if (!hidden.delete(name)) hidden.add(name);
    stress();
    apply();
  }

  /** Makes all other series pale; without a name, none. */
  function stress(name) {
    for (const part of all(document, '[data-series]')) part.style.opacity = name && part.dataset.series !== name ? 0.15 : '';
  }

  function chipOf([name, stroke, dash]) {
    const line = make('.path', { d: 'M0,6h30', stroke, 'stroke-width': 3, 'stroke-dasharray': dash });
    const chip = make('button', { type: 'button', 'data-name': name }, make('.svg', { width: 30, height: 12 }, line), name);
    on(chip, 'click', () => toggle(name));
    on(chip, 'pointerenter', () => stress(hidden.has(name) ? '' : name));
    on(chip, 'pointerleave', () => stress());
    return chip;
  }

  function tools() {
    const names = JSON.parse(document.getElementById('series')?.textContent ?? '[]');
    if (!names.length || document.getElementById('tools')) return;
    const units = new Set([ROUNDS, ...plots.flatMap((plot) => plot.units.map(({ name }) => name))]);
    const select = make('select', {}, ...[...units].map((name) => make('option', {}, name)));
    const inputs = [0, 1].map(() => make('input', { type: 'number', min: 0, step: 'any' }));
    const show = (unit, part) => {
      [select.value, unitName, range] = [unit, unit, part];
      apply();
    };
    on(select, 'change', () => show(select.value, null));
    for (const input of inputs) {
      on(input, 'change', () => {
        const part = inputs.map((end) => parseFloat(end.value));
        if (part[0] < part[1]) show(unitName, part);
      });
    }
    const reset = make('button', { type: 'button' }, 'Show all');
    on(reset, 'click', () => {
      hidden.clear();
      show(ROUNDS, null);
    });
    const fields = make('div', { class: 'fields' });
    if (units.size > 1) fields.append(make('label', {}, 'x axis ', select));
    if (plots.some(({ kind }) => kind)) fields.append(...inputs.map((input, end) => make('label', {}, end ? 'to ' : 'from ', input)));
    fields.append(reset);
    const chips = make('div', { class: 'chips', role: 'group', 'aria-label': 'Shown in all figures' }, ...names.map(chipOf));
    document.querySelector('main').before(make('aside', { id: 'tools', 'aria-label': 'Figures' }, chips, fields));
    document.documentElement.classList.add('alive');
  }

  // ---- Values under the cursor

  const reading = make('div', { id: 'reading', role: 'status' });

  function text({ low, high, log }, value) {
    return String(log ? +value.toPrecision(3) : +value.toFixed(clamp(3 - Math.floor(Math.log10(high - low)), 0, 12)));
  }

  /** Shows the values of a plot at a position, beside a point of the window; without a plot, nothing. */
  function read(plot, position, left, top) {
    document.querySelector('.hair')?.remove();
    const nearest = (points) => points.reduce((best, point) => (Math.abs(point.x - position) < Math.abs(best.x - position) ? point : best));
    const near = (plot?.shown ?? []).map(({ points, ...series }) => ({ ...series, ...nearest(points) }));
    cursor = near.length ? { plot, position } : null;
    reading.hidden = !cursor;
    if (!cursor) return;
    const at = nearest(near).x;
    plot.group.append(make('.path', { class: 'hair', d: `M${at},${plot.top}v${plot.height}` }));
    const here = near.filter(({ x }) => Math.abs(x - at) < 0.02 * plot.width).sort((one, other) => other.value - one.value);
    const rows = here.map(({ name, color, value, band }) => {
      const dot = make('.svg', { width: 10, height: 10 }, make('.circle', { cx: 5, cy: 5, r: 4.5, fill: color }));
      const between = band ? ` [${text(plot.y0, band[0])}, ${text(plot.y0, band.at(-1))}]` : '';
      return make('div', {}, dot, ` ${name}: ${text(plot.y0, value)}${between}`);
    });
    const title = plot.group.querySelector('.x-name')?.textContent.trim() ?? 'x';
    reading.replaceChildren(make('strong', {}, `${title}: ${text(plot.x, valueAt(plot.x, at))}`), ...rows);
    const { offsetWidth: width, offsetHeight: height } = reading;
    const side = left + 18 + width > innerWidth ? left - width - 18 : left + 18;
    Object.assign(reading.style, { left: `${Math.max(4, side)}px`, top: `${clamp(top + 12, 4, innerHeight - height - 4)}px` });
  }

  /** Where the pointer is in a figure, and the plot there. */
  function locate({ target, clientX, clientY }) {
    const svg = target.closest?.('.chart')?.querySelector('svg');
    if (!svg) return {};
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / width;
    const [x, y] = [(clientX - left) * scale, (clientY - top) * scale];
    const isHere = (plot) => x >= plot.left && x <= plot.left + plot.width && y >= plot.top && y <= plot.top + plot.height;
    return { x, plot: plots.find((plot) => svg.contains(plot.group) && isHere(plot)) };
  }

  function onMove(event) {
    const { x, plot } = locate(event);
    if (drag && x) {
      drag.to = clamp(x, drag.plot.left, drag.plot.left + drag.plot.width);
      set(drag.box, { x: Math.min(drag.from, drag.to), width: Math.abs(drag.to - drag.from) });
    }
    if (plot || cursor) read(plot, x, event.clientX, event.clientY);
  }

  function onDown(event) {
    const { x, plot } = locate(event);
    if (!plot?.kind || (unitOf(plot)?.name ?? ROUNDS) !== unitName || event.pointerType === 'touch' || event.button) return;
    event.preventDefault();
    const box = make('.rect', { class: 'drag', y: plot.top, height: plot.height });
    plot.group.append(box);
    drag = { plot, from: x, to: x, box };
  }

  function onUp() {
    if (!drag) return;
    const { plot, from, to, box } = drag;
    drag = null;
    box.remove();
    const part = [from, to].sort(ascending).map((at) => valueAt(plot.x, at));
    if (Math.abs(to - from) < 6) return;
    range = part;
    apply();
  }

  /** Arrows move from value to value, up and down from plot to plot; Escape ends it. */
  function onKey({ key, target }) {
    const svg = target.matches('.chart') && target.querySelector('svg');
    const [along, across] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [];
    const mine = plots.filter(({ group, shown }) => svg && svg.contains(group) && shown.length);
    if (key === 'Escape') read();
    if (along === undefined || !mine.length) return false;
    const plot = mine[clamp(Math.max(0, mine.indexOf(cursor?.plot)) + across, 0, mine.length - 1)];
    const xs = [...new Set(plot.shown.flatMap(({ points }) => points.map(({ x }) => x)))].sort(ascending);
    const now = cursor?.plot === plot ? xs.findLastIndex((x) => x <= cursor.position + 1e-6) + along : 0;
    const position = xs[clamp(now, 0, xs.length - 1)];
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = width / svg.viewBox.baseVal.width;
    read(plot, position, left + position * scale, top + plot.top * scale);
    return true;
  }

  // ---- Tables

  /** What a cell is sorted by: its first number, in bytes where it has such a unit, or its text. */
  function keyOf(cell) {
    const words = cell.textContent.trim();
    const [found, number, prefix] = words.match(/^([+-]?(?:∞|[\d.]+(?:e[+-]?\d+)?))(?:\s([kMGTP])B)?/) ?? [];
    if (words.startsWith('never')) return Infinity;
    if (!found) return words === '-' ? NaN : words;
    return Number(number.replace('∞', 'Infinity')) * 1000 ** (' kMGTP'.indexOf(prefix ?? ' '));
  }

  function sortable(table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    all(table, 'thead th').forEach((heading, column) => {
      const button = make('button', { type: 'button' }, ...heading.childNodes);
      heading.append(button);
      on(button, 'click', () => {
        const order = { ascending: 'descending', descending: '' }[heading.ariaSort] ?? 'ascending';
        for (const other of all(table, '[aria-sort]')) other.removeAttribute('aria-sort');
        if (order) heading.ariaSort = order;
        const sign = order === 'ascending' ? 1 : -1;
        const by = (one, other) => {
          const [a, b] = [keyOf(one.cells[column]), keyOf(other.cells[column])];
          // What has no value comes last.
          if (a !== a || b !== b) return (a !== a) - (b !== b);
          return sign * (typeof a === 'string' ? a.localeCompare(b) : a === b ? 0 : a - b);
        };
        body.append(...(order ? [...rows].sort(by) : rows));
      });
    });
  }

  /** Shows the sentence of a cell under its matrix; without scripts the cell leads to it. */
  function tells(matrix) {
    const told = make('p', { class: 'told', role: 'status' }, 'Point at a cell, or choose it, to read more.');
    matrix.append(told);
    on(matrix, 'click pointerover focusin', (event) => {
      const hash = event.target.closest('a')?.hash;
      if (hash && event.type === 'click') event.preventDefault();
      if (hash) told.textContent = document.getElementById(hash.slice(1)).textContent;
    });
  }

  // ---- From here on it is alive

  function begin() {
    let units = [];
    const isNew = (element) => !element.dataset.alive && (element.dataset.alive = 'yes');
    plots = plots.filter(({ group }) => group.isConnected);
    for (const part of all(document, '.units, main .chart')) {
      if (part.text) units = JSON.parse(part.textContent);
      else if (isNew(part)) plots.push(...all(part, '.plot').map((group) => readPlot(group, units)));
    }
    all(document, '.matrix').filter(isNew).forEach(tells);
    all(document, '.table:not(.matrix) table').filter(isNew).forEach(sortable);
    tools();
    apply();
  }

  document.body.append(reading);
  on(document, 'pointermove', onMove);
  on(document, 'pointerdown', onDown);
  on(document, 'pointerup', onUp);
  on(document, 'keydown', (event) => onKey(event) && event.preventDefault());
  on(document, 'focusout', () => cursor && read());
  on(document, 'click', ({ target }) => {
    const entry = target.closest('main [data-entry]');
    if (entry) toggle(entry.dataset.entry);
  });
  // A page that shows a run while it goes on puts new parts in the place of old ones.
  const past = document.getElementById('past');
  if (past) new MutationObserver(begin).observe(past, { childList: true });
  begin();
})();
