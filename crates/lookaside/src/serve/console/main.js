const VIEWS = { lookups: () => {}, tables: drawTables, sql: drawSql, models: drawModels };
const DOCUMENTS = ['openapi.json', 'metrics'];

/** Shows what the address names behind its #. */
async function route() {
  const name = location.hash.slice(1);
  const isDocument = DOCUMENTS.includes(name);
  const view = isDocument ? 'document' : Object.hasOwn(VIEWS, name) ? name : 'lookups';
  for (const other of [...Object.keys(VIEWS), 'document']) byId('view-' + other).hidden = other !== view;
  for (const link of byId('views').children) {
    if (link.hash === '#' + view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  try { await (isDocument ? drawDocument(name) : VIEWS[view]()); } catch { notice('The server did not answer.'); }
}

/** Asks for a key, and says what is wrong with the one that was given. */
async function askForKey(answer) {
  const told = await answer.json().catch(() => ({}));
  byId('key').hidden = false;
  byId('key-problem').hidden = !key;
  byId('key-problem').textContent = key ? `${told.title ?? 'it was refused'}; copy it whole, as it was printed` : '';
  byId('state').textContent = 'needs a key';
  byId('state').className = 'state';
}

// Polls pause for so long after a 429, so that the rate limit admits what the user asks for.
const LIMITED_PERIOD_MS = 5000;
let seen = '';
let wantsLookups = false;
async function refresh() {
  try {
    // The rate limit admitted the status and refused the lookups: now they are asked for first.
    if (wantsLookups) {
      const begin = performance.now();
      wantsLookups = await loadLookups() === null;
      // The status would be refused as well. After any other failure it says what is wrong.
      if (limitedAt >= begin) return;
    }
    const answer = await ask('/v1/status');
    if (answer.status === 401 || answer.status === 403) return await askForKey(answer);
    if (answer.status === 429) {
      byId('state').textContent = 'rate limit of this key reached';
      byId('state').className = 'state bad';
      return;
    }
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    const wasHidden = byId('key').hidden;
    byId('key').hidden = true;
    byId('other-key').hidden = !key;
    const status = await answer.json();
    draw(status);
    drawProviders(status.providers);
    drawWaiting(status.waiting);
    // Tables that were loaded anew, or a provider that answers now, bring other lookups.
    const now = [status.generation, ...status.lookups_not_ready].join(' ');
    if (now !== seen) {
      seen = now;
      project = null;
      wantsLookups = await loadLookups() === null;
    }
    if (!wasHidden) await route();
  } catch (error) {
    byId('state').textContent = 'away';
    byId('state').className = 'state bad';
  }
}

byId('reload').addEventListener('click', async () => {
  byId('reload').disabled = true;
  try {
    const answer = await ask('/v1/reload', { method: 'POST' });
    const told = await answer.json().catch(() => null);
    const fresh = (answer.ok ? await loadLookups() : null) ?? [];
    const what = fresh.length ? `; new: ${fresh.join(', ')}` : '';
    const warnings = told?.warnings?.length ? ` · ${told.warnings.join(' · ')}` : '';
    if (answer.ok) notice(`Reloaded in ${told.ms} ms, generation ${told.generation}${what}.${warnings}`, !warnings);
    else notice([told?.title ?? `The reload failed: ${answer.status}`, told?.detail].filter(Boolean).join(': '));
    project = null;
    byId('view-sql').replaceChildren();
    await refresh();
    await route();
  } catch { notice('The server did not answer.'); }
  byId('reload').disabled = false;
});
byId('key').addEventListener('submit', event => {
  event.preventDefault();
  const given = byId('key-value').value.trim();
  // A header cannot carry other characters, such as the … of an example.
  if (/[^\x21-\x7e]/.test(given)) {
    byId('key-problem').hidden = false;
    byId('key-problem').textContent = 'a key has no such characters; copy it whole, as it was printed';
    return;
  }
  key = given;
  sessionStorage.setItem('key', key);
  refresh();
});
byId('other-key').addEventListener('click', () => {
  key = '';
  sessionStorage.removeItem('key');
  location.reload();
});
addEventListener('hashchange', () => { notice(''); route(); });
makePlots();
route();
refresh();
setInterval(() => {
  const isLimited = performance.now() - limitedAt < LIMITED_PERIOD_MS && !wantsLookups;
  if (!document.hidden && byId('key').hidden && !isLimited) refresh();
}, PERIOD_MS);
