function rowsOf(id, names, rows) {
  const cell = value => element('td', {}, value instanceof Node ? value : String(value ?? ''));
  byId(id).replaceChildren(element('tr', {}, ...names.map(text => element('th', {}, text))),
    ...rows.map(row => element('tr', {}, ...row.map(cell))));
}

function drawProviders(providers) {
  byId('providers-section').hidden = providers.length === 0;
  const healths = { up: 'good', down: 'bad', idle: '' };
  const hasFeeds = providers.some(provider => provider.feed);
  rowsOf('providers', ['name', 'kind', 'where', 'health', 'connections', 'last error', ...(hasFeeds ? ['change feed'] : [])], providers.map(provider =>
    [provider.name, provider.kind, provider.place, element('span', { class: 'state ' + healths[provider.health] }, provider.health), provider.connections, provider.last_error,
      ...(hasFeeds ? [provider.feed && feedCell(provider.feed)] : [])]));
}

/** The state of a change feed, with what it keeps up to date or why it does not. */
function feedCell(feed) {
  const states = { live: 'good', down: 'bad', starting: '', idle: '' };
  const lag = feed.lag_s == null ? [] : [`lag ${micros(1e6 * feed.lag_s)}`];
  const told = [`${grouped(feed.statements)} ${feed.statements === 1 ? 'statement' : 'statements'}`, ...lag, ...(feed.reason ? [feed.reason] : [])];
  return element('span', {}, element('span', { class: 'state ' + states[feed.state] }, feed.state), `: ${told.join(', ')}`);
}

function drawWaiting(waiting) {
  byId('waiting-section').hidden = waiting.length === 0;
  rowsOf('waiting', ['provider', 'lookups', 'models', 'reason'], waiting.map(({ provider, lookups, models, error }) =>
    [provider, lookups.join(', '), models.join(', '), error ?? 'the provider has not answered yet']));
}

let shownLookups = null;

/** Shows the lookups, and says which are new since they were shown last; `null` if there is no answer. */
async function loadLookups() {
  const answer = await ask('/v1/lookups');
  if (!answer.ok) return null;
  const { lookups } = await answer.json();
  const before = shownLookups;
  shownLookups = Object.fromEntries(lookups.map(lookup => [lookup.name, JSON.stringify(lookup)]));
  const known = new Map([...document.querySelectorAll('.lookup')].map(card => [card.dataset.name, card]));
  // What is as it was stays, with what somebody typed.
  const cards = lookups.map(lookup => before?.[lookup.name] === shownLookups[lookup.name] ? known.get(lookup.name) : lookupCard(lookup));
  byId('lookups').replaceChildren(...(cards.length ? cards : [element('p', { class: 'card quiet' }, 'None yet. A section ',
    element('code', {}, '[lookups.NAME]'), ' with its ', element('code', {}, 'sql'), ' in knowdb.toml makes one; then press Reload.')]));
  return before ? lookups.map(lookup => lookup.name).filter(name => !Object.hasOwn(before, name)) : [];
}

function lookupCard(lookup) {
  const examples = new URLSearchParams(lookup.example?.split('?')[1] ?? '');
  const fields = (lookup.params ?? []).map(param => {
    const type = param.type + (param.nullable ? ', may be left out' : '');
    const input = element('input', { name: param.name, placeholder: type, value: examples.get(param.name) ?? '', autocomplete: 'off', spellcheck: 'false' });
    if (param.nullable) input.dataset.nullable = 'yes';
    return element('label', {}, element('span', {}, element('b', {}, param.name), ' ' + type), input);
  });
  const output = element('div', { class: 'answer' });
  const plan = element('div', { class: 'plan' });
  const form = element('form', { 'data-lookup': lookup.name }, ...fields, element('button', { class: 'main' }, 'Look up'));
  form.append(button('CSV', () => saveCsv(lookup.name, lookupUrl(lookup, form))), button('Plan', () => togglePlan(lookup.name, plan), { class: 'show-plan' }));
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const url = lookupUrl(lookup, form);
    await show(output, url);
    output.append(element('pre', {}, `curl '${location.origin}${url}'` + (key ? " -H 'Authorization: Bearer …'" : '')));
  });
  const tags = [lookup.many ? 'all rows' : 'first row', lookup.ready ? lookup.answered_by : 'waits for its provider'];
  return element('div', { class: 'card lookup', 'data-name': lookup.name },
    element('h2', {}, element('span', { class: 'mono' }, lookup.name), ...tags.map(text => element('span', { class: 'tag' }, text))),
    ...(lookup.description ? [element('p', { class: 'quiet' }, lookup.description)] : []), form, output, plan);
}

function lookupUrl(lookup, form) {
  const given = [...form.querySelectorAll('input')].filter(input => input.value || !input.dataset.nullable);
  const query = new URLSearchParams(given.map(input => [input.name, input.value])).toString();
  const path = `/v1/lookup/${encodeURIComponent(lookup.name)}`;
  return query ? `${path}?${query}` : path;
}

async function togglePlan(name, output) {
  if (output.childElementCount) return output.replaceChildren();
  const project = await loadProject(true);
  if (!project.tables) return output.replaceChildren(project);
  const found = project.lookups.find(lookup => lookup.name === name);
  output.replaceChildren(element('pre', {}, found.sql.trim()), element('pre', {}, found.plan ?? 'its provider has not described it yet'),
    element('p', { class: 'quiet' }, `asked since the start: found ${grouped(found.found)}, no row ${grouped(found.absent)}, failed ${grouped(found.failed)}`));
}
