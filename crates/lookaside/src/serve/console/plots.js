// Two minutes, as long as somebody looks at a plot.
const SAMPLE_COUNT = 120;
const PERIOD_MS = 1000;
// As X-Cache names them, as people do, and whether it is memory.
const LAYERS = [
  ['body', 'encoded', true], ['native', 'index', true], ['l0', 'L0', true], ['l1', 'L1', true],
  ['sqlite', 'SQLite', false], ['provider', 'provider', false], ['stale', 'stale', false],
];
const samples = [];
let last = null;

/** The upper bound of the bucket that holds a quantile; null without a sample. */
function quantile(bounds, counts, share) {
  const all = counts.reduce((sum, value) => sum + value, 0);
  let left = Math.ceil(all * share);
  const at = counts.findIndex(value => (left -= value) <= 0);
  return all ? 1e6 * (bounds[at] ?? bounds.at(-1)) : null;
}

const percent = value => (100 * value).toFixed(0) + ' %';
// Their names, and what is read from a sample: [name, value, colour], how a value is written, and the height at least.
const PLOTS = {
  rate: { title: 'Lookups', write: value => count(value) + '/s', from: 10, series: () => [['lookups', s => s.rate, '--accent'], ['requests', s => s.requests, '--warm']] },
  hits: {
    title: 'Answered by', write: percent, from: 1, stacked: true,
    series: () => LAYERS.filter(([layer]) => last?.answers[layer] > 0).map(([layer, text]) => [text, s => s.asked ? s.layers[layer] / s.asked : 0, '--' + layer]),
  },
  latency: { title: 'Latency in the server', write: micros, series: () => [['p50', s => s.latency.p50, '--accent'], ['p99', s => s.latency.p99, '--warm']] },
  memory: { title: 'Memory', write: bytes, unit: 2 ** 20, series: () => [['resident', s => s.memory, '--accent']] },
};

function makePlots() {
  byId('plots').replaceChildren(...Object.entries(PLOTS).map(([id, plot]) => {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    svg.setAttribute('class', 'plot');
    svg.setAttribute('id', id + '-plot');
    svg.setAttribute('aria-hidden', 'true');
    const box = element('div', { class: 'plot-box' }, svg, element('span', { class: 'axis top', id: id + '-top' }), element('span', { class: 'axis zero' }, '0'),
      element('div', { class: 'times' }, element('span', {}, '2 min ago'), element('span', {}, 'now')));
    box.addEventListener('pointermove', event => {
      const { left, width } = svg.getBoundingClientRect();
      plot.share = Math.min(1, Math.max(0, (event.clientX - left) / width));
      read(id, plot);
    });
    box.addEventListener('pointerleave', () => { plot.share = null; read(id, plot); });
    return element('div', { class: 'card' }, element('h2', {}, plot.title), element('div', { class: 'figure', id }, '–'), box,
      element('div', { class: 'reading', id: id + '-reading' }), element('div', { class: 'legend', id: id + '-legend' }));
  }));
}

/** Tells the values under the pointer. */
function read(id, plot) {
  const svg = byId(id + '-plot');
  svg.parentElement.querySelector('.cursor')?.remove();
  const ago = plot.share == null ? null : Math.round((1 - plot.share) * (SAMPLE_COUNT - 1));
  const sample = ago == null ? null : samples[samples.length - 1 - ago];
  const values = sample ? plot.series().map(([name, value]) => `${name} ${plot.write(value(sample))}`) : [];
  byId(id + '-reading').textContent = ago == null ? '' : `${ago} s ago: ${values.join(', ') || 'nothing yet'}`;
  if (ago != null) {
    const cursor = element('i', { class: 'cursor' });
    cursor.style.left = plot.share * svg.clientWidth + 'px';
    svg.parentElement.append(cursor);
  }
}

/** The least of 1, 2 or 5 times a power of ten, of a unit, that is no less. */
function roundedUp(value, unit) {
  const power = 10 ** Math.floor(Math.log10(value / unit));
  return [1, 2, 5, 10].map(factor => factor * power * unit).find(it => it >= value);
}

/** Draws series of numbers: as lines, or stacked to areas. */
function drawPlot(id, legendTexts) {
  const plot = PLOTS[id];
  const series = plot.series();
  const [width, height] = [240, 54];
  const svg = byId(id + '-plot');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  const rows = series.map(([, value]) => samples.map(sample => value(sample)));
  const sums = samples.map((_, at) => rows.reduce((sum, values) => plot.stacked ? sum + (values[at] ?? 0) : Math.max(sum, values[at] ?? 0), 0));
  const most = Math.max(plot.from ?? 0, 1e-9, ...sums);
  const top = plot.stacked ? most : roundedUp(most, plot.unit ?? 1);
  byId(id + '-top').textContent = top > 1e-6 ? plot.write(top) : '';
  const x = at => width - (samples.length - 1 - at) * width / (SAMPLE_COUNT - 1);
  const y = value => height - 2 - value / top * (height - 4);
  let below = samples.map(() => 0);
  svg.replaceChildren(...rows.map((values, index) => {
    const colour = series[index][2];
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    if (plot.stacked) {
      const upper = values.map((value, at) => below[at] + (value ?? 0));
      const forth = upper.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
      const back = below.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).reverse();
      path.setAttribute('d', 'M' + [...forth, ...back].join('L') + 'Z');
      path.style.fill = `var(${colour})`;
      below = upper;
    } else {
      const points = values.map((value, at) => value == null ? null : `${x(at).toFixed(1)},${y(value).toFixed(1)}`).filter(Boolean);
      path.setAttribute('d', points.length ? 'M' + points.join('L') : '');
      path.style.cssText = `fill:none;stroke:var(${colour});stroke-width:1.6;vector-effect:non-scaling-stroke`;
    }
    return path;
  }));
  byId(id + '-legend').replaceChildren(...series.map(([name, , colour], index) => {
    const mark = element('i');
    mark.style.background = `var(${colour})`;
    return element('span', {}, mark, legendTexts?.[index] ?? name);
  }));
  read(id, plot);
}

function draw(status) {
  byId('project').textContent = status.project;
  byId('version').textContent = 'lookaside ' + status.version;
  byId('generation').textContent = status.generation;
  byId('uptime').textContent = span(status.uptime_s);
  const state = byId('state');
  state.textContent = status.ready ? 'serving' : 'not ready';
  state.className = 'state ' + (status.ready ? 'good' : 'bad');

  // A server that was started again counts from nothing.
  if (last && status.uptime_s > last.uptime_s) {
    const seconds = status.uptime_s - last.uptime_s;
    const layers = Object.fromEntries(LAYERS.map(([layer]) => [layer, status.answers[layer] - last.answers[layer]]));
    const { bounds_s: bounds, counts } = status.latency;
    const since = counts.map((value, at) => value - last.latency.counts[at]);
    const asked = Object.values(layers).reduce((sum, value) => sum + value, 0);
    samples.push({
      rate: asked / seconds, requests: (status.requests - last.requests) / seconds, layers, asked,
      latency: { p50: quantile(bounds, since, 0.5), p99: quantile(bounds, since, 0.99) },
      memory: status.memory_bytes,
    });
    if (samples.length > SAMPLE_COUNT) samples.shift();
  } else if (last && status.uptime_s < last.uptime_s) {
    samples.length = 0;
    seen = '';
  }
  last = status;
  const now = samples.at(-1);
  if (!now) return;
  byId('rate').replaceChildren(count(now.rate), element('small', {}, ' /s'));
  const hits = LAYERS.filter(([, , isMemory]) => isMemory).reduce((sum, [layer]) => sum + now.layers[layer], 0);
  byId('hits').replaceChildren(now.asked ? (100 * hits / now.asked).toFixed(1) + ' %' : '–', element('small', {}, ' from memory'));
  byId('latency').replaceChildren(now.latency.p50 == null ? '–' : '≤ ' + micros(now.latency.p50), element('small', {}, ' median'));
  byId('memory').textContent = bytes(now.memory);
  drawPlot('rate', ['lookups', `requests ${count(now.requests)}/s`]);
  drawPlot('hits');
  drawPlot('latency', ['p50', `p99 ≤ ${micros(now.latency.p99)}`]);
  drawPlot('memory', [`${count(status.rows)} rows in ${status.tables} ${status.tables === 1 ? 'table' : 'tables'}; caches ${bytes(status.cache_bytes)}`]);
}
