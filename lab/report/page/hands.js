/* What the reader does: mouse, touch, keys; and the first drawing. */
const LEAST_VIEW = 20;
const perf = window.perf = {};                   // milliseconds, for tests
let isWaiting = false;

function later(draw) {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    draw();
  });
}
const DOES = ['an allocation of ', 'a free of ', 'memory was created: ', 'memory was released: ', 'OUT OF MEMORY for ',
  'addresses got memory: ', 'addresses lost memory: ', 'the CPU waited for the GPU: '];
function title() {
  const k = kind[moment];
  return `event ${num(events[moment])}, ${DOES[k]}${tell(k, amountOf(moment))} · ${size(now.liveBytes)} in use` +
    (M.knows_held ? `, ${size(now.whole + now.beside)} held and free` : '');
}
function drawMoment() {
  const began = performance.now(), chart = $('chart');
  now = stateAt(moment);
  $('now').textContent = title();
  chart.setAttribute('aria-valuenow', moment);
  chart.setAttribute('aria-valuemax', N - 1);
  chart.setAttribute('aria-valuetext', $('now').textContent);
  drawCursor();
  tellGroups();
  drawMap();
  if (hasMap) drawSide();
  drawOwners();
  $('tip').innerHTML = picked >= 0 ? describe(picked) : summary();
  perf.moment = performance.now() - began;
}
function drawView() {
  const began = performance.now();
  drawChart();
  drawStrip();
  drawCalls();
  perf.view = performance.now() - began;
}
function drawAll() {
  drawKeys();
  drawView();
  drawMoment();
  drawOthers();
}
function go(row, follow) {
  moment = Math.max(0, Math.min(N - 1, Math.round(row)));
  if (follow && (moment < left || moment > right)) {
    const wide = right - left;
    view(moment - wide / 2, moment + wide / 2);
  }
  later(drawMoment);
}
function view(from, to) {
  from = Math.max(0, Math.round(from));
  to = Math.min(N - 1, Math.round(to));
  if (to - from < LEAST_VIEW) {
    from = Math.max(0, ((from + to) >> 1) - LEAST_VIEW / 2);
    to = Math.min(N - 1, from + LEAST_VIEW);
  }
  left = from;
  right = to;
  drawView();
}
function zoom(factor) {
  const at = Math.max(left, Math.min(right, moment));
  view(at - (at - left) * factor, at + (right - at) * factor);
  drawMoment();
}
function setDim(to) {
  dim = to;
  focus = -1;
  [...$('dims').children].forEach((b, i) => b.setAttribute('aria-pressed', i === dim));
  regroup();
  drawAll();
}
function select(h) {
  focus = h === focus ? -1 : h;
  regroup();
  drawAll();
}
function goToCall(step) {
  for (let i = moment + step; i >= 0 && i < N; i += step) if (kind[i] > FREE) return go(i, true);
}
function escape() {
  picked = chosen = -1;
  if (focus >= 0) select(-1); else drawMoment();
}

function partOf(element, event) {
  const box = element.getBoundingClientRect();
  return Math.max(0, Math.min(1, (event.clientX - box.left - PAD_LEFT) / (box.width - PAD_LEFT - PAD_RIGHT)));
}
function handChart() {
  const chart = $('chart');
  let isDown = false;
  chart.onpointerdown = e => {
    isDown = true;
    chart.setPointerCapture(e.pointerId);
    chart.focus({preventScroll: true});
    go(rowAt(partOf(chart, e), left, right));
  };
  chart.onpointermove = e => { if (isDown) go(rowAt(partOf(chart, e), left, right)); };
  chart.onpointerup = chart.onpointercancel = () => { isDown = false; };
  chart.addEventListener('wheel', e => {
    if (!e.ctrlKey && !e.shiftKey) return;
    e.preventDefault();
    const at = rowAt(partOf(chart, e), left, right), factor = Math.exp((e.deltaY || e.deltaX) * .0025);
    view(at - (at - left) * factor, at + (right - at) * factor);
  }, {passive: false});
}
/* Drags an edge, the view, or a new view. */
function handStrip() {
  const element = $('strip'), row = part => rowAt(Math.max(0, Math.min(1, part)), 0, N - 1);
  let grip = null;
  element.onpointerdown = e => {
    const at = partOf(element, e), from = place(left, 0, N - 1), to = place(right, 0, N - 1), near = 14 / element.clientWidth;
    const what = Math.abs(at - from) < near ? 'left' : Math.abs(at - to) < near ? 'right' : at > from && at < to && to - from < .98 ? 'all' : 'new';
    grip = {what, at, from, to};
    element.setPointerCapture(e.pointerId);
  };
  element.onpointermove = e => {
    if (!grip) return;
    const at = partOf(element, e), {what, from, to} = grip;
    if (what === 'left') later(() => view(Math.min(row(at), right - LEAST_VIEW), right));
    else if (what === 'right') later(() => view(left, Math.max(row(at), left + LEAST_VIEW)));
    else if (what === 'all') {
      const start = Math.max(0, Math.min(1 - (to - from), from + at - grip.at));
      later(() => view(row(start), row(start + to - from)));
    } else if (Math.abs(at - grip.at) > .004) {
      const first = Math.min(at, grip.at), last = Math.max(at, grip.at);
      later(() => view(row(first), row(last)));
    }
  };
  element.onpointerup = element.onpointercancel = () => {
    grip = null;
    later(drawMoment);
  };
}
function handTables() {
  $('keys').onclick = e => {
    const b = e.target.closest('button[data-h]');
    if (b) select(+b.dataset.h);
    if (!e.target.closest('button[data-all]')) return;
    showsAll = true;
    sortBy = 'most';
    drawOwners();
    $('who').scrollIntoView({block: 'start'});
  };
  $('who').onclick = e => {
    const head = e.target.closest('[data-k]'), row = e.target.closest('tr[data-h]'), at = e.target.closest('[data-row]');
    if (at) go(+at.dataset.row, true);
    else if (head) {
      sortBy = head.dataset.k;
      drawOwners();
    } else if (row) {
      chosen = -1;
      select(+row.dataset.h);
    }
  };
  $('pins').onclick = e => {
    const row = e.target.closest('tr[data-b]');
    if (!row) return;
    picked = +row.dataset.b;
    $('tip').innerHTML = describe(picked);
    drawMap();
  };
  for (const id of ['who', 'pins']) $(id).onkeydown = e => {
    if (e.key === 'Enter' && e.target.tagName === 'TR') e.target.click();
  };
  $('more').onclick = () => {
    showsAll = !showsAll;
    drawOwners();
  };
  $('map').onpointermove = pointAt;
  $('map').onclick = e => {
    const b = pointAt(e);
    picked = b === picked ? -1 : b;
    chosen = b >= 0 ? B.owner[b] : -1;
    drawMap();
    drawOwners();
  };
}
function handKeys() {
  $('b-peak').onclick = () => go(M.peak, true);
  $('b-failure').onclick = () => R.row.length && go(R.row[R.row.length - 1], true);
  $('b-all').onclick = () => {
    view(0, N - 1);
    drawMoment();
  };
  $('dims').onclick = e => { if (e.target.dataset.i) setDim(+e.target.dataset.i); };
  $('theme').onclick = () => {
    root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
    readColors();
    mapKeys();
    drawLineKeys();
    drawAll();
  };
  const far = e => e.shiftKey ? Math.max(1, Math.round((right - left) / 100)) : 1;
  const does = {ArrowLeft: e => go(moment - far(e), true), ArrowRight: e => go(moment + far(e), true), Home: () => go(left), End: () => go(right),
    '[': () => goToCall(-1), ']': () => goToCall(1), p: () => $('b-peak').click(), o: () => $('b-failure').click(),
    '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2), 0: () => $('b-all').click(), g: () => setDim((dim + 1) % DIMS.length), Escape: escape};
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || !does[e.key]) return;
    e.preventDefault();
    does[e.key](e);
  });
  let timer;
  addEventListener('resize', () => {
    clearTimeout(timer);
    timer = setTimeout(drawAll, 80);
  });
}
function drawLineKeys() {
  const keys = [];
  if (M.knows_held) keys.push('— held by the allocator', `driver: ${plain(C.taken)} took memory ${plain(C.given)} gave it back`);
  if (W.length) keys.push('▼ the CPU waited for the GPU');
  if (M.away) keys.push(`at most ${M.away}: in use, and not held`);
  if (M.capacity) keys.push('- - the device');
  $('line-keys').innerHTML = keys.map(k => `<span>${k}</span>`).join('');
}
/* What a file does not know is not drawn. */
function fitToFile() {
  $('held-is').hidden = !M.knows_held;
  $('moment').hidden = !hasMap;
  $('segments').hidden = !M.knows_held;
  $('grew-is').textContent = 'from event ' + num(M.growth_event) + ' on';
  $('b-failure').hidden = R.row.length === 0;
  $('map-is').textContent = M.knows_held
    ? 'All memory that is held, by address, wrapped like text. Hatched: free, but beside live blocks of the same segment. Pale with a border: a whole segment is free. Dark bars are gaps between addresses.'
    : hasMap ? 'The addresses that were in use up to here, wrapped like text: a log does not say what the allocator held. Hatched: free now. Dark bars are gaps between addresses.'
    : 'The file does not say where blocks lie, so there is no map of addresses.';
  $('dims').innerHTML = DIMS.map((d, i) => `<button data-i="${i}" aria-pressed="${i === dim}">${d[0]}</button>`).join('');
}
const wanted = location.hash.match(/dark|light/);
root.dataset.theme = wanted ? wanted[0] : matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
load().then(() => {
  perf.decoded = performance.now() - START;
  right = N - 1;
  moment = M.moment;
  if (M.owner_kind === 'size') dim = DIMS.findIndex(d => d[1] === 'size');
  fitToFile();
  handChart();
  handStrip();
  handTables();
  handKeys();
  findFloors();
  regroup();
  mapKeys();
  drawLineKeys();
  drawAll();
  perf.drawn = performance.now() - START;
  requestAnimationFrame(() => setTimeout(() => {
    perf.painted = performance.now();
    window.isDone = true;
  }, 0));
});
