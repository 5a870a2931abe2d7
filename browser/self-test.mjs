// The check itself, checked: it accepts a sound page, refuses each kind of broken page for the right
// reason, and answers with the right exit codes. A check that never refuses would pass everything.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { faultsOf, launch } from './report-check.mjs';

const FIGURE = '<figure><svg width="200" height="100"><rect width="200" height="100"/></svg></figure>';
const SOUND = `<nav><a href="#one">One</a></nav><h1 id="one">One</h1>${FIGURE}`;

/** What is on the page, and how its only kind of fault has to be reported. */
const BROKEN = [
  [`${SOUND}<script>console.error('told')</script>`, 'console error: told'],
  [`${SOUND}<script>throw new Error('thrown')</script>`, 'page error: thrown'],
  [`${SOUND}<img alt="" src="http://127.0.0.1:9/">`, 'request: http://127.0.0.1:9/'],
  [`${SOUND}<script>new WebSocket('ws://127.0.0.1:9/')</script>`, 'request: ws://127.0.0.1:9/'],
  [`${SOUND}<img alt="" src="other.png">`, 'other.png'],
  [SOUND.replace(FIGURE, ''), '0 figures with a visible svg'],
  [SOUND + FIGURE, '2 figures with a visible svg'],
  [SOUND.replace('width="200"', 'width="40"'), '0 figures with a visible svg'],
  [SOUND.replace('<svg', '<svg style="visibility:hidden"'), '0 figures with a visible svg'],
  [SOUND.replace('<figure>', '<figure style="display:none">'), '0 figures with a visible svg'],
  [`${SOUND}<p style="width:3000px">wide</p>`, 'scrolls sideways: 30'],
  [`${SOUND}<h2> </h2>`, 'heading without text: <h2>'],
  [FIGURE, 'no heading'],
  [SOUND.replace('#one', '#two'), 'link that leads nowhere: <a href="#two">'],
  [`${SOUND}<a href="rounds.csv">rounds</a>`, 'link to a file that is not there: rounds.csv'],
  [`${SOUND}<a href="https://localhost/">elsewhere</a>`, 'link to a file that is not there: https:'],
  [
    `${SOUND}<style>@media (prefers-color-scheme: dark) { body { background: #111111; color: #eeeeee } }</style>`,
    'print after the dark: ground 51',
  ],
  [`${SOUND}<style>@media print { body { display: none } }</style>`, 'the PDF is empty'],
];

const folder = mkdtempSync(join(tmpdir(), 'agewise-browser-'));
let browser;
try {
  browser = await launch();
  const wrongs = [...(await wrongVerdicts()), ...wrongExitCodes()];
  wrongs.forEach((wrong) => console.error(`self-test: ${wrong}`));
  if (wrongs.length === 0) console.log(`self-test: fine, ${BROKEN.length} broken pages refused`);
  process.exitCode = wrongs.length === 0 ? 0 : 1;
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true });
}

function write(name, body) {
  const path = join(folder, name);
  writeFileSync(path, `<!DOCTYPE html><html lang="en"><title>t</title><body>${body}</body></html>`);
  return path;
}

async function wrongVerdicts() {
  const wrongs = (await faultsOf(browser, write('sound.html', SOUND), 1)).map(
    (fault) => `a sound page is refused: ${fault}`,
  );
  for (const [body, expected] of BROKEN) {
    const faults = await faultsOf(browser, write('broken.html', body), 1);
    if (!faults.some((fault) => fault.includes(expected))) {
      wrongs.push(`expected "${expected}" of ${body}, found ${JSON.stringify(faults)}`);
    }
  }
  return wrongs;
}

function wrongExitCodes() {
  const script = fileURLToPath(new URL('check-report.mjs', import.meta.url));
  const sound = write('sound.html', SOUND);
  const cases = [
    [[sound, '1'], 0],
    [[sound, '2'], 1],
    [[], 2],
    [[sound], 2],
    [[sound, 'one'], 2],
    [[join(folder, 'none.html'), '1'], 2],
    [[sound, '1', 'prefix', 'more'], 2],
  ];
  return cases.flatMap(([args, expected]) => {
    const { status, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
    return status === expected ? [] : [`${args.join(' ')}: exit ${status}, not ${expected}\n${stderr}`];
  });
}
