/* Blocks in up to eight groups and the rest. An owner has its letter beside the colour, and keeps
 * it whatever the colours are of; other groups have figures. */
const OTHERS = 8, HELD = 9, STEP = 4096, PART = 64;
const MIB = 1048576 / UNIT;
const SIZES = [[1, 'up to 1 MiB'], [4, '1 to 4 MiB'], [16, '4 to 16 MiB'], [64, '16 to 64 MiB'], [256, '64 to 256 MiB'],
  [1024, '256 MiB to 1 GiB'], [Infinity, 'over 1 GiB']];
const LIVES = [[.5, 'over half of the run'], [.1, '10 to 50 % of the run'], [.01, '1 to 10 %'], [.001, '0.1 to 1 %'], [-1, 'shorter']];
/* What a recording of Mend says of who asked, if it is not all that it says. */
const PARTS = [['phase', 'scope', 'outside of scopes'], ['tag', 'tag', 'without a tag'], ['line', 'line', 'without a line']];
const said = {};                                 // by part, then by owner
const DIMS = [[M.owner_kind === 'size' ? 'exact size' : M.owner_kind, 'owner']];
for (const [text, part, none] of PARTS) {
  said[part] = sayingsOf(part).map(name => name || none);
  const many = new Set(said[part]).size;
  if (many > 1 && many < M.owners.length && text !== M.owner_kind) DIMS.push([text, part]);
}
if (M.streams.length > 1) DIMS.push(['stream', 'stream']);
DIMS.push([M.owner_kind === 'size' ? 'size class' : 'size', 'size'], ['lifetime', 'life']);
const LETTERS = 'ABCDEFGH·', FIGURES = '12345678·';
const RAMP = ['#7a7cc9', '#4a94d0', '#35b3a7', '#6cc26d', '#b9d24f', '#f0c43a', '#e8893b', '#d36b4f', '#a9adb3'];
const root = document.documentElement;
const letterOf = new Uint8Array(M.owners.length).fill(OTHERS);
M.letters.forEach((h, i) => { letterOf[h] = i; });
let C = {};                                      // colours
let dim = 0, focus = -1;                         // one owner alone; -1: all
let group, names = [], groupOfOwner;
let before;                                      // sums of the groups and of what is held, before each STEP rows
let parts;                                       // of each PART rows, what a column of pixels shows

function readColors() {
  const style = getComputedStyle(root);
  for (const name of ['paper', 'card', 'ink', 'soft', 'line', 'faint', 'bad', 'accent', 'free', 'hatch', 'empty'])
    C[name] = style.getPropertyValue('--' + name).trim();
  C.of = isRamp() ? RAMP : [0, 1, 2, 3, 4, 5, 6, 7, 8].map(g => style.getPropertyValue('--g' + g).trim());
  C.taken = style.getPropertyValue('--g0').trim();
  C.given = style.getPropertyValue('--g5').trim();
}
const isRamp = () => focus < 0 && (DIMS[dim][1] === 'size' || DIMS[dim][1] === 'life');
/* Black or white, whichever can be read on a colour. */
function inkOn(color) {
  const part = i => {
    const v = parseInt(color.slice(i, i + 2), 16) / 255;
    return v <= .04045 ? v / 12.92 : Math.pow((v + .055) / 1.055, 2.4);
  };
  const light = .2126 * part(1) + .7152 * part(3) + .0722 * part(5);
  return 1.05 / (light + .05) > (light + .05) / .0555 ? '#fff' : '#111';
}
const letter = h => LETTERS[letterOf[h]];
const mark = g => focus < 0 ? (DIMS[dim][1] === 'owner' ? LETTERS : FIGURES)[g] : g === OTHERS ? '' : letter(focus);
const swatch = (g, text) => `<i class="sw" style="${g < 0 ? 'border:1px solid var(--soft);color:var(--ink)'
  : `background:${C.of[g]};color:${inkOn(C.of[g])}`};font-style:normal">${text}</i>`;
const plain = color => `<i class="sw" style="background:${color}"></i>`;

/* Phases are scopes, cut where there are several: "step/forward" and "step/backward". */
function sayingsOf(part) {
  const all = M.owners.map(h => h[part] || '');
  if (part !== 'scope') return all;
  const cut = deep => all.map(path => path.split('/').slice(0, deep).join('/'));
  const deepest = all.reduce((most, path) => Math.max(most, path.split('/').length), 1);
  let deep = 1;
  while (deep < deepest && new Set(cut(deep).filter(path => path)).size < 2) deep++;
  return cut(deep);
}
/* Those that have most at the moment that the page begins with, or at the peak. */
function groupsOfPart(saying) {
  const most = new Map();
  for (const row of [M.moment, M.peak]) {
    const sums = new Map();
    heldAt(row).forEach((units, h) => sums.set(saying[h], (sums.get(saying[h]) || 0) + units));
    for (const [name, units] of sums) most.set(name, Math.max(most.get(name) || 0, units));
  }
  const order = [...most.keys()].sort((p, q) => most.get(q) - most.get(p));
  names = order.slice(0, OTHERS);
  if (order.length > OTHERS) names[OTHERS] = num(order.length - OTHERS) + ' others';
  const at = new Map(order.map((name, g) => [name, Math.min(OTHERS, g)])), of = saying.map(name => at.get(name));
  return b => of[B.owner[b]];
}
function groupsBy(what) {
  if (focus >= 0) {
    const own = letterOf[focus] < OTHERS ? letterOf[focus] : 0;
    names[own] = M.owners[focus].name;
    names[OTHERS] = 'all others';
    return b => B.owner[b] === focus ? own : OTHERS;
  }
  if (what === 'owner') {
    names = M.letters.map(h => M.owners[h].name);
    if (M.owners.length > OTHERS) names[OTHERS] = num(M.owners.length - OTHERS) + ' others (which?)';
    return b => letterOf[B.owner[b]];
  }
  if (said[what]) return groupsOfPart(said[what]);
  if (what === 'stream') {
    names = M.streams.slice(0, OTHERS).map(streamName);
    if (M.streams.length > OTHERS) names[OTHERS] = 'other streams';
    return b => Math.min(OTHERS, B.stream[b]);
  }
  if (what === 'size') {
    names = SIZES.map(s => s[1]);
    return b => SIZES.findIndex(s => B.size[b] <= s[0] * MIB);
  }
  names = ['never freed', ...LIVES.map(l => l[1])];
  return b => B.f[b] === NEVER ? 0 : 1 + LIVES.findIndex(l => (B.f[b] - B.a[b]) / N > l[0]);
}
function regroup() {
  names = [];
  const of = groupsBy(DIMS[dim][1]);
  group = new Uint8Array(M.blocks);
  groupOfOwner = new Int8Array(M.owners.length).fill(-1);
  for (let b = 0; b < M.blocks; b++) {
    const g = group[b] = of(b), h = B.owner[b];
    groupOfOwner[h] = groupOfOwner[h] === -1 || groupOfOwner[h] === g ? g : -2;
  }
  before = new Float64Array((Math.ceil(N / STEP) + 1) * (HELD + 1));
  const sum = new Float64Array(HELD + 1);
  for (let i = 0; i < N; i++) {
    if (i % STEP === 0) before.set(sum, i / STEP * (HELD + 1));
    apply(sum, i);
  }
  parts = columnsOfRows(0, N - 1, Math.ceil(N / PART), 1 / PART);
  readColors();
  drawKeys();
}
function apply(sum, i) {
  const k = kind[i], b = arg[i];
  if (k === ALLOC) sum[group[b]] += B.size[b];
  else if (k === FREE) sum[group[b]] -= B.size[b];
  sum[HELD] += grow[i];
}
/* What each group has at the moment. */
function tellGroups() {
  const sums = new Float64Array(HELD);
  for (const b of now.live) sums[group[b]] += B.size[b];
  for (const element of $('keys').querySelectorAll('[data-g]')) element.textContent = size(sums[element.dataset.g]);
  return sums;
}
/* The largest of the owners without a letter. */
function otherNames() {
  const largest = M.owners.map((_, h) => h).filter(h => letterOf[h] === OTHERS).sort((p, q) => most[q] - most[p]).slice(0, 8);
  return largest.map(h => `${M.owners[h].name}: ${size(most[h])} at most`).join('\n') + '\nClick: all of them in the table below';
}
/* As `libmend report` cuts them: names of lines begin alike and end alike. */
function short(name) {
  const letters = [...name], most = innerWidth > 900 ? 44 : innerWidth > 520 ? 32 : 24, half = most / 2;
  return letters.length <= most ? name : letters.slice(0, half).join('') + '…' + letters.slice(1 - half).join('');
}
function drawKeys() {
  const out = [];
  for (let g = 0; g <= OTHERS; g++) {
    if (names[g] === undefined) continue;
    const alone = DIMS[dim][1] === 'owner' && focus < 0 && g < OTHERS;
    const does = alone ? `data-h="${M.letters[g]}" title="${esc(names[g])}: show this one alone"`
      : g === OTHERS && DIMS[dim][1] === 'owner' && focus < 0 ? `data-all title="${esc(otherNames())}"` : 'disabled';
    out.push(`<button ${does}>${swatch(g, mark(g))}<span>${esc(short(names[g]))}</span> <b data-g="${g}"></b></button>`);
  }
  if (focus >= 0) out.push('<button data-h="-1">✕ show all</button>');
  $('keys').innerHTML = out.join('');
}
