/* The map of addresses at the moment, wrapped like text, and beside it what would fit. */
const ROW_GAP = 3;
let now = null, picked = -1;
let shape = {rowUnits: 1, scale: 1, pitch: 1, hits: []};  // of the map as it is drawn
const hasMap = M.knows_held || M.knows_used;

/* Slanted lines: free beside live blocks; the other way: of other streams; dots: waits for streams. */
function pattern(x, kindOf) {
  const tile = document.createElement('canvas'), q = tile.getContext('2d');
  tile.width = tile.height = 6;
  q.fillStyle = C.free;
  q.fillRect(0, 0, 6, 6);
  q.strokeStyle = q.fillStyle = kindOf === 'waits' ? C.bad : C.hatch;
  q.lineWidth = 1.2;
  if (kindOf === 'waits') {
    q.fillRect(1, 1, 2, 2);
    q.fillRect(4, 4, 2, 2);
  } else {
    if (kindOf === 'others') q.setTransform(-1, 0, 0, 1, 6, 0);
    for (const [a, b] of [[-1, 7], [-1, 1], [5, 7]]) {
      q.beginPath();
      q.moveTo(a, b === 1 ? 1 : 7);
      q.lineTo(a + (b === 1 ? 2 : a === 5 ? 2 : 8), b === 1 ? -1 : a === 5 ? 5 : -1);
      q.stroke();
    }
  }
  return x.createPattern(tile, 'repeat');
}
/* Calls draw(x, y, width, height) for each row that a stretch of the map reaches into. */
function rowsOf(offset, length, draw) {
  while (length > 0) {
    const row = Math.floor(offset / shape.rowUnits), from = offset - row * shape.rowUnits;
    const part = Math.min(length, shape.rowUnits - from);
    draw(from * shape.scale, row * shape.pitch, Math.max(part * shape.scale, .6), shape.pitch - ROW_GAP);
    offset += part;
    length -= part;
  }
}
/* Live blocks as [offset in the map, length, block]: those in several chunks are several. */
function findHits() {
  const hits = [];
  let i = 0;
  for (const k of now.list) {
    while (i > 0 && endOf(now.live[i - 1]) > k.at) i--;
    while (i < now.live.length && endOf(now.live[i]) <= k.at) i++;
    for (; i < now.live.length && B.addr[now.live[i]] < k.at + k.size; i++) {
      const b = now.live[i], from = Math.max(k.at, B.addr[b]), to = Math.min(k.at + k.size, endOf(b));
      const offset = k.offset + from - k.at, last = hits[hits.length - 1];
      if (last && last[2] === b && last[0] + last[1] === offset) last[1] += to - from;
      else hits.push([offset, to - from, b]);
    }
  }
  return hits;
}
function drawFree(x) {
  const hatch = pattern(x, 'beside'), others = pattern(x, 'others');
  const own = kind[moment] === REFUSE && M.knows_held && !M.is_recording ? R.stream[arg[moment]] : null;
  for (const [offset, length, isWhole, stream] of now.free) rowsOf(offset, length, (X, Y, w, h) => {
    const isOthers = own !== null && own !== stream;
    x.fillStyle = isOthers ? others : isWhole ? C.empty : hatch;
    x.fillRect(X, Y, w, h);
    x.strokeStyle = C.line;
    if (isWhole) x.strokeRect(X + .5, Y + .5, Math.max(0, w - 1), h - 1);
  });
}
function drawBlocks(x) {
  const waits = pattern(x, 'waits');
  x.textAlign = 'center';
  x.font = 'bold 10px system-ui,"DejaVu Sans",sans-serif';
  for (const [offset, length, b] of shape.hits) rowsOf(offset, length, (X, Y, w, h) => {
    const isWaiting = B.w[b] <= moment, color = C.of[group[b]];
    x.fillStyle = isWaiting ? waits : color;
    x.fillRect(X, Y, w, h);
    x.fillStyle = C.card;
    if (w > 3) x.fillRect(X, Y, 1, h);
    x.fillStyle = isWaiting ? C.ink : inkOn(color);
    if (w > 15) x.fillText(mark(group[b]), X + w / 2, Y + h / 2 + .5);
  });
  x.strokeStyle = C.bad;
  x.lineWidth = 2.5;
  for (const [offset, length, b] of shape.hits)
    if (b === picked) rowsOf(offset, length, (X, Y, w, h) => x.strokeRect(X + 1, Y + 1, Math.max(2, w - 2), h - 2));
  x.lineWidth = 1;
}
function drawMap() {
  if (!hasMap) return;
  const element = $('map'), isNarrow = element.parentNode.clientWidth < 500, rowHeight = isNarrow ? 15 : 17;
  const rows = Math.max(10, Math.min(isNarrow ? 22 : 24, Math.ceil(now.total / (16 * MIB))));
  shape.rowUnits = Math.ceil(now.total / rows / MIB) * MIB || 1;
  shape.pitch = rowHeight + ROW_GAP;
  element.style.height = rows * shape.pitch + 18 + 'px';
  const [x, w, h] = canvas(element);
  shape.scale = w / shape.rowUnits;
  shape.hits = findHits();
  drawFree(x);
  drawBlocks(x);
  const hasTicks = now.list.length < 1500;
  for (const k of now.list) rowsOf(k.offset, Math.min(k.size, 1), (X, Y) => {
    x.fillStyle = k.gap ? C.ink : C.card;
    if (k.gap) x.fillRect(X - .5, Y - 1, 1.5, rowHeight + 3);
    else if (hasTicks) x.fillRect(X, Y + rowHeight - 3, 1.2, 3);
  });
  x.font = FONT;
  x.fillStyle = C.soft;
  x.textAlign = 'left';
  x.fillText('a row is ' + size(shape.rowUnits), 0, h - 8);
  x.textAlign = 'right';
  x.fillText(`${num(now.list.length)} ${M.knows_held ? 'segments' : 'stretches'}, ${num(now.live.length)} blocks`, w, h - 8);
}
function mapKeys() {
  const tile = what => {
    const x = document.createElement('canvas').getContext('2d');
    x.canvas.width = 20;
    x.canvas.height = 13;
    x.fillStyle = pattern(x, what);
    x.fillRect(0, 0, 20, 13);
    return `<img src="${x.canvas.toDataURL()}" alt="">`;
  };
  const keys = [tile('beside') + ' free beside live blocks'];
  if (M.knows_held && !M.is_recording && M.streams.length > 1) keys.push(tile('others') + ' free, of another stream than what failed');
  if (B.w.some(w => w !== NEVER)) keys.push(tile('waits') + ' freed, waits for streams');
  $('map-keys').innerHTML = keys.map(k => `<span>${k}</span>`).join('');
}
const age = b => `${num(ago(B.a[b]))} events old`;
function describe(b) {
  const end = B.f[b] === NEVER ? '<b>never freed</b>' : `freed ${num(-ago(B.f[b]) + 1)} events later`;
  return `<b>${size(B.size[b])}</b> of <b>${esc(M.owners[B.owner[b]].name)}</b>, ${age(b)}, ` +
    `${B.w[b] <= moment ? '<b>freed, waits for streams</b>' : end}, ${esc(streamName(M.streams[B.stream[b]]))}`;
}
function summary() {
  const keeper = now.keeps[0];
  if (!keeper) return 'Nothing is free beside live blocks. Point at a block.';
  const h = M.owners[keeper[0]];
  return `<b>${size(now.beside)}</b> is free beside live blocks. Most of it, <b>${size(keeper[1][0])}</b>, is in ${num(keeper[1][1])} ` +
    `${M.knows_held ? 'segments' : 'stretches'} that <b>${esc(h.name)}</b> keeps in place` +
    (h.growth_bytes ? ', which also grows: ending that frees both.' : '.') + ' Point at a block.';
}
function pointAt(event) {
  if (!now) return -1;
  const box = $('map').getBoundingClientRect(), row = Math.floor((event.clientY - box.top) / shape.pitch);
  const offset = row * shape.rowUnits + (event.clientX - box.left) / shape.scale, isIn = p => offset >= p[0] && offset < p[0] + p[1];
  const hit = shape.hits.find(isIn), free = now.free.find(isIn);
  $('tip').innerHTML = hit ? describe(hit[2]) : !free ? summary()
    : `<b>${size(free[1])} free</b>${free[2] ? ', a whole segment' : ', beside live blocks'}${M.knows_held && !M.is_recording ? ', of ' + esc(streamName(free[3])) : ''}`;
  return hit ? hit[2] : -1;
}

function bar(label, value, most, color, text) {
  const part = Math.min(100, value / most * 100);
  return `<span>${label}</span><div><i style="width:${part}%;background:${color}"></i></div><span>${text || size(value)}</span>`;
}
/* Whose blocks are freed and still used by streams. */
function waiting(free) {
  const of = new Map();
  for (const b of now.live) if (B.w[b] <= moment) {
    const key = B.owner[b] + '/' + B.stream[b], sum = of.get(key) || [0, 0, b];
    of.set(key, [sum[0] + B.size[b], sum[1] + 1, b]);
  }
  const parts = [...of.values()].sort((p, q) => q[0] - p[0]), shown = parts.slice(0, 3).map(([units, blocks, b]) =>
    `${parts.length > 1 ? size(units) + ' in ' : ''}${num(blocks)} ${blocks === 1 ? 'block' : 'blocks'} of <b>${esc(M.owners[B.owner[b]].name)}</b>, ${esc(streamName(M.streams[B.stream[b]]))}`);
  return now.waiting ? `<b>${size(now.waiting)}</b> waits: ${shown.join('; ')}${parts.length > 3 ? '; and others' : ''}. It counts as in use, not in the ${size(free)} free.` : '';
}
function drawFit() {
  const asked = kind[moment] === REFUSE ? R.size[arg[moment]] : 0, free = now.whole + now.beside, most = Math.max(asked, free, 1);
  const g = C.of, out = [];
  $('fit-title').textContent = asked ? `Why ${size(asked)} did not fit` : 'What would fit here';
  if (asked) out.push(bar('asked for', asked, most, C.bad));
  if (asked && R.short[arg[moment]]) out.push(bar('would have fitted', asked - R.short[arg[moment]], most, C.accent));
  out.push(bar(M.knows_held ? 'free in all' : 'free of what was used', free, most, C.taken));
  out.push(bar('of it: longest piece', now.longest, most, C.accent));
  if (M.knows_held) {
    out.push(bar('of it: whole segments', now.whole, most, C.line), bar('of it: beside live blocks', now.beside, most, C.hatch));
    if (asked && !M.is_recording) out.push(bar('of it: other streams', now.others, most, C.hatch));
    else if (now.freeOf.size > 1)
      for (const [s, units] of [...now.freeOf].sort((p, q) => q[1] - p[1]).slice(0, 4)) out.push(bar('of it: ' + streamName(s), units, most, C.hatch));
    if (now.waiting) out.push(bar('not free: waits for streams', now.waiting, most, C.bad));
    if (M.capacity) out.push(bar('not held', Math.max(0, M.capacity / UNIT - now.held), most, C.line));
  }
  $('fit').innerHTML = out.join('');
  $('waits').innerHTML = waiting(free);
}
function drawSegments() {
  const bins = ['empty', 'under 25 %', '25 to 50 %', '50 to 75 %', '75 to 99 %', 'full'].map(name => [name, 0, 0]);
  for (const k of now.list) {
    const part = k.used / k.size, bin = bins[part === 0 ? 0 : part < .25 ? 1 : part < .5 ? 2 : part < .75 ? 3 : part < 1 ? 4 : 5];
    bin[1] += k.size;
    bin[2]++;
  }
  const most = Math.max(...bins.map(b => b[1]), 1);
  $('full').innerHTML = bins.map(b => bar(b[0], b[1], most, C.accent, `${size(b[1])} · ${num(b[2])}`)).join('');
  const worst = now.list.filter(k => k.used && k.used < k.size).sort((p, q) => (q.size - q.used) - (p.size - p.used)).slice(0, 5);
  $('pins').innerHTML = worst.length === 0 ? '<p class="soft">None: nothing is fragmented here.</p>'
    : '<table><tr><th>free</th><th>of</th><th>blocks</th><th class="name">largest</th></tr>' + worst.map(k =>
      `<tr data-b="${k.largest}" tabindex="0"><td>${size(k.size - k.used)}</td><td>${size(k.size)}</td><td>${num(k.blocks)}</td>` +
      `<td class="name">${swatch(group[k.largest], letter(B.owner[k.largest]))} ${size(B.size[k.largest])}, ${age(k.largest)}</td></tr>`).join('') + '</table>';
}
function drawSide() {
  drawFit();
  if (M.knows_held) drawSegments();
}
