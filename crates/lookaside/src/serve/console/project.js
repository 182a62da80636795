let project = null;

/** What the project is made of; what to say instead where this key may not see it. */
async function loadProject(isFresh = false) {
  if (project && !isFresh) return project;
  const answer = await ask('/v1/project');
  if (answer.ok) return project = await answer.json();
  project = null;
  const text = await answer.text();
  return element('div', { class: 'card' }, problem(text));
}

async function drawTables() {
  const view = byId('view-tables');
  const loaded = await loadProject(true);
  if (!loaded.tables) return view.replaceChildren(loaded);
  const cards = loaded.tables.map(table => {
    const output = element('div', { class: 'answer' });
    const path = `/v1/tables/${encodeURIComponent(table.name)}`;
    const readers = loaded.lookups.filter(lookup => lookup.tables.includes(table.name));
    const columns = element('table', { class: 'columns' }, element('tr', {}, element('th', {}, 'column'), element('th', {}, 'type')),
      ...table.columns.map(column => element('tr', {}, element('td', { class: 'mono' }, column.name), element('td', { class: 'mono quiet' }, column.type || '–'))));
    return element('div', { class: 'card', 'data-table': table.name },
      element('h2', {}, element('span', { class: 'mono' }, table.name),
        element('span', { class: 'tag' }, table.rows == null ? 'view' : `${grouped(table.rows)} ${table.rows === 1 ? 'row' : 'rows'}`),
        ...readers.map(lookup => element('span', { class: 'tag' }, `${lookup.name}: ${lookup.summary}`))),
      ...table.warnings.map(text => element('p', { class: 'warning' }, text)),
      columns, element('div', { class: 'row' }, button('First rows', () => show(output, path), { class: 'main' }), button('CSV of the first rows', () => saveCsv(table.name, path))), output);
  });
  const none = element('p', { class: 'card quiet' }, 'None. A section ', element('code', {}, '[[tables]]'), ' in knowdb.toml makes one; tables of providers are not listed.');
  view.replaceChildren(...(cards.length ? cards : [none]));
}

let typedSql = null;

async function drawSql() {
  const view = byId('view-sql');
  const loaded = await loadProject();
  if (!loaded.tables) return view.replaceChildren(loaded);
  if (view.querySelector('textarea')) return;
  if (loaded.query_rows_max == null) {
    return view.replaceChildren(element('div', { class: 'card' }, element('h2', {}, 'Queries are switched off'),
      element('p', {}, 'Add ', element('code', {}, 'query_rows_max = 1000'), ' to ', element('code', {}, '[server]'), ' in knowdb.toml, and press Reload. It is for people you trust: a query takes a core until ',
        element('code', {}, 'query_timeout_ms'), '.')));
  }
  const first = loaded.tables[0]?.name.replaceAll('"', '""');
  const sql = element('textarea', { id: 'sql-text', rows: 6, spellcheck: 'false', 'aria-label': 'SQL' });
  sql.value = typedSql ?? (first ? `select * from "${first}" limit 20` : 'select 1');
  sql.addEventListener('input', () => { typedSql = sql.value; });
  const params = element('input', { id: 'sql-params', value: '{}', size: 40, spellcheck: 'false' });
  const output = element('div', { class: 'answer' });
  // The parameters go as they are written, so that all digits of a number arrive.
  const post = () => ({ method: 'POST', body: `{"sql":${JSON.stringify(sql.value)},"params":${params.value.trim() || '{}'}}` });
  const explain = async () => {
    const answer = await ask('/v1/explain', post());
    const text = await answer.text();
    output.replaceChildren(answer.ok ? element('pre', {}, JSON.parse(text).plan) : problem(text));
  };
  view.replaceChildren(element('div', { class: 'card' }, sql, element('div', { class: 'row' },
    element('label', {}, 'values of :name parameters, as JSON', params),
    button('Run', () => show(output, '/v1/query', post()), { class: 'main', id: 'sql-run' }), button('Explain', explain, { id: 'sql-explain' }),
    button('CSV', () => saveCsv('query', '/v1/query', post())),
    element('span', { class: 'quiet' }, `answers are cut after ${grouped(loaded.query_rows_max)} rows`)), output));
}

const FORMATS = ['json', 'csv', 'kv', 'access', 'syslog', 'raw'];

async function drawModels() {
  const view = byId('view-models');
  const loaded = await loadProject(true);
  if (!loaded.tables) return view.replaceChildren(loaded);
  const cards = loaded.models.map(model => {
    const known = [...view.querySelectorAll('[data-model]')].find(card => card.dataset.model === model.name);
    const event = element('textarea', { rows: 4, spellcheck: 'false', placeholder: 'an event a line', 'aria-label': 'events' });
    event.value = known?.querySelector('textarea').value ?? model.example ?? '';
    const isLine = model.example && !model.example.startsWith('{');
    const format = element('select', {}, element('option', { value: '' }, 'format of [enrich], or JSON'), ...FORMATS.map(name => element('option', { value: name }, name)));
    if (!isLine) format.value = 'json';
    const output = element('div', { class: 'answer' });
    const counts = element('span', { class: 'tag' }, lookupCounts(model));
    const failed = element('div', {}, ...lastFailure(model));
    const run = async () => {
      await runModel(model, event.value, format.value, output);
      const now = (await loadProject(true)).models?.find(it => it.name === model.name);
      if (!now) return;
      counts.replaceChildren(lookupCounts(now));
      failed.replaceChildren(...lastFailure(now));
    };
    const waits = model.ready ? [] : [element('p', { class: 'failed' }, `not ready: ${model.waits}`)];
    return element('div', { class: 'card', 'data-model': model.name },
      element('h2', {}, element('span', { class: 'mono' }, model.name), element('span', { class: 'tag' }, model.ready ? 'ready' : 'not ready'), counts),
      ...waits, failed, event, element('div', { class: 'row' }, button('Run', run, { class: 'main' }), element('label', {}, 'events are', format)), output);
  });
  view.replaceChildren(...(cards.length ? cards : [element('p', { class: 'card quiet' }, 'None. A file models/NAME.oml makes one.')]));
}

function lookupCounts(model) {
  return `lookups: found ${grouped(model.found)}, no row ${grouped(model.absent)}, failed ${grouped(model.failed)}`;
}

/** Why a lookup of a model failed last, if one did. */
function lastFailure(model) {
  return model.failed ? [element('p', { class: 'failed' }, `${grouped(model.failed)} lookups failed. The last reason: ${model.last_failure ?? 'see the log'}`)] : [];
}

/** Sends events through a model, and shows what came out and why something did not. */
async function runModel(model, text, format, output) {
  const query = new URLSearchParams({ summary: 'true', output_format: 'json', ...(format ? { format } : {}) });
  const path = `/v1/enrich/${model.name.split('/').map(encodeURIComponent).join('/')}?${query}`;
  const answer = await ask(path, { method: 'POST', body: text.replace(/\n?$/, '\n'), headers: { Accept: 'application/x-ndjson' } });
  const told = await answer.text();
  if (!answer.ok) return output.replaceChildren(problem(told));
  const lines = told.split('\n').filter(Boolean);
  const summary = lines.length && lines.at(-1).startsWith('{"$summary"') ? JSON.parse(lines.pop()).$summary : {};
  const reasons = [['failed lookups', summary.failed, summary.failure_reason], ['rejected', summary.rejected, summary.reject_reason]];
  output.replaceChildren(...reasons.filter(([, number]) => number > 0).map(([what, number, reason]) => element('p', { class: 'failed' }, `${what}: ${number}, the first: ${reason}`)),
    lines.length ? element('pre', {}, lines.map(line => writeExact(parseExact(line), 2)).join('\n')) : element('p', { class: 'quiet' }, 'no event came out'));
}

/** A document of the server, which a plain link could not bring a key for. */
async function drawDocument(name) {
  const view = byId('view-document');
  const answer = await ask('/' + name);
  const text = await answer.text();
  if (!answer.ok) return view.replaceChildren(element('div', { class: 'card' }, problem(text)));
  const shown = name.endsWith('.json') ? JSON.stringify(JSON.parse(text), null, 2) : text;
  view.replaceChildren(element('div', { class: 'card' }, element('h2', {}, '/' + name), button('Save', () => save(name, 'text/plain', text)), element('pre', {}, shown)));
}
