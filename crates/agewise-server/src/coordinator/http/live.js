// Keeps the live page up to date: asks for what has changed once a second, and says when there is no answer.
'use strict';
(() => {
  const PAUSE = 1000;
  /** An answer that takes longer is none. */
  const TIMEOUT = 15000;

  const main = document.querySelector('main');
  const gone = document.getElementById('gone');
  let timer = 0;
  let isLooking = false;

  /** Puts a new part in the place of an old one; how far it was scrolled stays, and who was on it. */
  function swap(old, fresh) {
    const left = old.querySelector('.scroll')?.scrollLeft ?? 0;
    const hadFocus = old.contains(document.activeElement);
    old.replaceWith(fresh);
    const scroll = fresh.querySelector('.scroll');
    if (scroll && left > 0) scroll.scrollLeft = left;
    if (scroll && hadFocus) scroll.focus({ preventScroll: true });
  }

  /** Makes a section like a new one. What has not changed is not touched, so that nothing flickers. */
  function patch(old, fresh) {
    for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
    const before = [...old.children];
    const after = [...fresh.children];
    after.forEach((child, index) => {
      const present = before[index];
      if (present === undefined) old.append(child);
      else if (present.outerHTML !== child.outerHTML) swap(present, child);
    });
    before.slice(after.length).forEach((child) => child.remove());
  }

  function show(html) {
    const answer = new DOMParser().parseFromString(html, 'text/html');
    for (const fresh of answer.querySelectorAll('section')) {
      const old = document.getElementById(fresh.id);
      if (old === null) main.append(fresh);
      else patch(old, fresh);
    }
    nameTab();
  }

  function nameTab() {
    const state = document.querySelector('#now h2')?.textContent ?? '';
    if (state !== '') document.title = `${state} – agewise`;
  }

  function found() {
    gone.hidden = true;
    main.classList.remove('stale');
  }

  function lost() {
    if (!gone.hidden) return;
    const time = new Date().toLocaleTimeString();
    const isOver = document.getElementById('now')?.dataset.state === 'finished';
    const why = isOver ? 'The run was finished.' : 'What you see is what it said last.';
    const source = document.documentElement.dataset.source ?? 'The coordinator';
    gone.textContent = `${source} cannot be reached since ${time}. ${why}`;
    gone.hidden = false;
    main.classList.add('stale');
  }

  async function look() {
    clearTimeout(timer);
    if (isLooking || document.hidden) return;
    isLooking = true;
    try {
      const have = document.getElementById('past')?.dataset.version ?? '';
      const signal = AbortSignal.timeout(TIMEOUT);
      const response = await fetch(`live?have=${have}`, { cache: 'no-store', signal });
      const html = await response.text();
      // The coordinator also has something to say when it cannot read its ledger (503).
      if (!html.includes('<section id="now"')) throw new Error(`status ${response.status}`);
      found();
      show(html);
    } catch {
      lost();
    } finally {
      isLooking = false;
      timer = setTimeout(look, PAUSE);
    }
  }

  document.addEventListener('visibilitychange', look);
  nameTab();
  timer = setTimeout(look, PAUSE);
})();
