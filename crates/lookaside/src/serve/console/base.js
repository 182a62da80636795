'use strict';
const byId = id => document.getElementById(id);
let key = sessionStorage.getItem('key') || '';

// The time of the last answer 429.
let limitedAt = -Infinity;

async function ask(path, options = {}) {
  const headers = { Accept: 'application/json', ...options.headers };
  if (key) headers.Authorization = 'Bearer ' + key;
  const answer = await fetch(path, { cache: 'no-store', ...options, headers });
  if (answer.status === 429) limitedAt = performance.now();
  return answer;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}
function button(text, act, attributes = {}) {
  const made = element('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', async () => {
    try { await act(); } catch { notice('The server did not answer.'); }
  });
  return made;
}

function count(value) {
  const units = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']];
  for (const [size, unit] of units) if (value >= size) return (value / size).toPrecision(3) + unit;
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}
const grouped = value => value.toLocaleString('en');
const bytes = value => value == null ? '–' : value >= 2 ** 30 ? (value / 2 ** 30).toFixed(2) + ' GiB' : (value / 2 ** 20).toFixed(1) + ' MiB';
const micros = value => value == null || !isFinite(value) ? '–' : value >= 1e6 ? (value / 1e6).toFixed(2) + ' s' : value >= 1e3 ? (value / 1e3).toPrecision(3) + ' ms' : value.toPrecision(3) + ' µs';
function span(seconds) {
  const [days, hours, minutes] = [seconds / 86400, seconds / 3600, seconds / 60].map(Math.floor);
  if (days > 1) return `up ${days} days`;
  if (hours > 0) return `up ${hours} h ${minutes % 60} min`;
  return minutes > 0 ? `up ${minutes} min` : `up ${Math.floor(seconds)} s`;
}

/** Says what was done, or what was not. */
function notice(text, isGood = false) {
  byId('notice').hidden = !text;
  byId('notice').className = 'card notice' + (isGood ? '' : ' bad');
  byId('notice').textContent = text || '';
}

// What a number begins with that is kept as text; no text of a row begins so by accident.
const MARK = '\u0001' + Math.random().toString(36).slice(2) + ':';

/** JSON with numbers as they are written where JavaScript would write others: beyond 2^53, say. */
function parseExact(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  return JSON.parse(text.replace(tokens, token =>
    token[0] === '"' || String(Number(token)) === token ? token : JSON.stringify(MARK + token)));
}
const isExact = value => typeof value === 'string' && value.startsWith(MARK);

/** The way back. */
function writeExact(value, indent) {
  const marked = new RegExp(JSON.stringify(MARK).slice(0, -1).replaceAll('\\', '\\\\') + '([^"]*)"', 'g');
  return JSON.stringify(value, null, indent).replace(marked, '$1');
}

// A page with more rows is of no use to anybody, and slow.
const ROWS_SHOWN_MAX = 200;

/** Rows as a table, anything else as it came. */
function body(text) {
  let value;
  try { value = parseExact(text); } catch { return element('pre', {}, text); }
  const rows = Array.isArray(value) ? value : [value];
  const isRow = row => row && typeof row === 'object' && !Array.isArray(row);
  if (!rows.length) return element('p', { class: 'quiet' }, 'no rows');
  if (!rows.every(isRow)) return element('pre', {}, writeExact(value, 2));
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const isNumber = cellValue => typeof cellValue === 'number' || isExact(cellValue);
  const cell = cellValue => element('td', isNumber(cellValue) ? { class: 'number mono' } : { class: 'mono' },
    cellValue == null ? '' : isExact(cellValue) ? cellValue.slice(MARK.length) : typeof cellValue === 'object' ? writeExact(cellValue) : String(cellValue));
  const table = element('table', {}, element('tr', {}, ...columns.map(name => element('th', isNumber(rows[0][name]) ? { class: 'number' } : {}, name))),
    ...rows.slice(0, ROWS_SHOWN_MAX).map(row => element('tr', {}, ...columns.map(name => cell(row[name])))));
  const shown = element('div', { class: 'scroll' }, table);
  if (rows.length > ROWS_SHOWN_MAX) shown.append(element('p', { class: 'cut' }, `the first ${ROWS_SHOWN_MAX} of ${grouped(rows.length)} rows are shown; the CSV has all`));
  return shown;
}

/** What is wrong, in one line. */
function problemLine(text) {
  let told;
  try { told = JSON.parse(text); } catch { return text; }
  const faults = (told.parameters ?? []).map(fault => `${fault.name} ${fault.problem}`);
  return [told.title ?? 'it failed', told.detail, faults.join('; ')].filter(Boolean).join(': ');
}

/** What is wrong, as people read it. */
function problem(text) {
  let told;
  try { told = JSON.parse(text); } catch { return element('pre', { class: 'failed' }, text); }
  const faults = (told.parameters ?? []).map(fault => element('li', {}, element('b', {}, fault.name), ' ' + fault.problem));
  return element('div', { class: 'failed' }, element('b', {}, told.title ?? 'it failed'), told.detail ? ': ' + told.detail : '',
    ...(faults.length ? [element('ul', {}, ...faults)] : []));
}

/** Asks, and shows the answer with what its headers tell. */
async function show(output, path, options = {}) {
  const begin = performance.now();
  try {
    const answer = await ask(path, options);
    const took = (performance.now() - begin) * 1000;
    const text = await answer.text();
    const isAbsent = answer.status === 404 && text.includes('there is no row');
    const head = element('div', { class: 'head' }, element('b', { class: answer.ok || answer.status === 404 ? '' : 'failed' }, `${answer.status} ${answer.statusText}`),
      `${micros(took)} from here`);
    for (const name of ['X-Cache', 'Server-Timing', 'ETag', 'X-Rejected', 'X-Failed']) {
      const value = answer.headers.get(name);
      if (value) head.append(element('span', {}, `${name}: ${value}`));
    }
    output.replaceChildren(head, answer.ok ? body(text) : isAbsent ? element('p', { class: 'quiet' }, 'no row') : problem(text));
    const cut = answer.headers.get('X-Rows-Cut');
    if (cut) output.append(element('p', { class: 'cut' }, `cut: there are more than these ${grouped(Number(cut))} rows`));
    return answer.ok;
  } catch (error) {
    output.replaceChildren(element('div', { class: 'head' }, element('b', { class: 'failed' }, 'no answer'), String(error.message)));
    return false;
  }
}

/** Saves a text as a file. */
function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element('a', { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Asks for CSV, and saves it. */
async function saveCsv(name, path, options = {}) {
  const answer = await ask(path, { ...options, headers: { ...options.headers, Accept: 'text/csv' } });
  const text = await answer.text();
  if (!answer.ok) return notice(`No CSV: ${problemLine(text)}`);
  save(name + '.csv', 'text/csv', text);
  const cut = answer.headers.get('X-Rows-Cut');
  notice(`Saved ${name}.csv${cut ? `, cut after ${grouped(Number(cut))} rows` : ''}.`, true);
}
