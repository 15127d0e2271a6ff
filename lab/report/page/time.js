/* Memory over time, its strip, and the view that is drawn. */
const PAD_LEFT = 62, PAD_RIGHT = 10, LANE = 26;
const FONT = '12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif';
let left = 0, right = 0, moment = 0;             // rows: the view, and what the next sections show
let cols = null, strip = null;

function canvas(element) {
  const ratio = devicePixelRatio || 1, w = element.clientWidth, h = element.clientHeight;
  if (element.width !== Math.round(w * ratio) || element.height !== Math.round(h * ratio)) {
    element.width = Math.round(w * ratio);
    element.height = Math.round(h * ratio);
  }
  const x = element.getContext('2d');
  x.setTransform(ratio, 0, 0, ratio, 0, 0);
  x.clearRect(0, 0, w, h);
  x.font = FONT;
  x.textBaseline = 'middle';
  return [x, w, h];
}
const place = (row, from, to) => (row - from) / Math.max(1, to - from);
const rowAt = (part, from, to) => Math.max(0, Math.min(N - 1, Math.round(from + part * (to - from))));

/* For each column of pixels: the groups at its highest moment, the most held, and what was done. */
function columns(from, to, width) {
  const scale = width / Math.max(1, to - from);
  return scale * PART > .25 ? columnsOfRows(from, to, width, scale) : columnsOfParts(from, to, width, scale);
}
const COUNTED = ['taken', 'given', 'failed', 'waits'];
function emptyColumns(width) {
  const c = {width, of: new Float64Array(width * HELD), held: new Float64Array(width), top: new Float64Array(width).fill(-1)};
  for (const name of COUNTED) c[name] = new Uint32Array(width);
  return c;
}
/* Of views with many rows in a column, from sums of parts: a border is off by less than a part. */
function columnsOfParts(from, to, width, scale) {
  const c = emptyColumns(width);
  for (let p = Math.floor(from / PART); p * PART <= to; p++) {
    const q = Math.max(0, Math.min(width - 1, (p * PART - from) * scale | 0));
    if (parts.top[p] > c.top[q]) {
      c.top[q] = parts.top[p];
      for (let g = 0; g < HELD; g++) c.of[q * HELD + g] = parts.of[p * HELD + g];
    }
    c.held[q] = Math.max(c.held[q], parts.held[p]);
    for (const name of COUNTED) c[name][q] += parts[name][p];
  }
  return c;
}
function columnsOfRows(from, to, width, scale) {
  const c = emptyColumns(width);
  const at = Math.floor(from / STEP), sum = before.slice(at * (HELD + 1), (at + 1) * (HELD + 1));
  for (let i = at * STEP; i < from; i++) apply(sum, i);
  let live = 0, last = 0;
  for (let g = 0; g < HELD; g++) live += sum[g];
  const put = q => {
    if (live > c.top[q]) {
      c.top[q] = live;
      for (let g = 0; g < HELD; g++) c.of[q * HELD + g] = sum[g];
    }
    if (sum[HELD] > c.held[q]) c.held[q] = sum[HELD];
  };
  put(0);
  for (let i = from; i <= to && i < N; i++) {
    const q = Math.min(width - 1, (i - from) * scale | 0), k = kind[i];
    while (last < q) put(++last);
    apply(sum, i);
    if (k === ALLOC) live += B.size[arg[i]];
    else if (k === FREE) live -= B.size[arg[i]];
    else if (k === TAKE) c.taken[q]++;
    else if (k === GIVE) c.given[q]++;
    else if (k === REFUSE) c.failed[q]++;
    else if (k === WAIT) c.waits[q]++;
    put(q);
  }
  while (last < width - 1) put(++last);
  return c;
}
function stepOf(most) {
  const unit = most * UNIT >= 1073741824 ? 1073741824 / UNIT : most * UNIT >= 1048576 ? MIB : 2, x = most / unit;
  const power = Math.pow(10, Math.floor(Math.log10(x / 4 || 1)));
  return unit * ([1, 2, 5, 10].map(m => m * power).find(s => x / s <= 6) || 10 * power);
}
/* A group as an area, and its letter where it is widest. */
function drawGroup(x, g, base, Y, height, top) {
  const w = cols.width, of = c => cols.of[c * HELD + g];
  x.fillStyle = C.of[g];
  x.beginPath();
  x.moveTo(PAD_LEFT, Y(base[0]));
  for (let c = 0; c < w; c++) {
    const y = Y(base[c] + of(c));
    x.lineTo(PAD_LEFT + c, y);
    x.lineTo(PAD_LEFT + c + 1, y);
  }
  for (let c = w - 1; c >= 0; c--) {
    const y = Y(base[c]);
    x.lineTo(PAD_LEFT + c + 1, y);
    x.lineTo(PAD_LEFT + c, y);
  }
  x.fill();
  let best = -1, where = 0;
  for (let c = 12; c < w - 12; c++) {
    let room = Infinity;
    for (let q = c - 9; q <= c + 9; q += 3) room = Math.min(room, of(q) - Math.abs(base[q] - base[c]));
    if (room > best) best = room, where = c;
  }
  if (best / top * height > 14) {
    x.fillStyle = inkOn(C.of[g]);
    x.textAlign = 'center';
    x.font = 'bold ' + FONT;
    x.fillText(mark(g), PAD_LEFT + where, Y(base[where] + of(where) / 2));
    x.font = FONT;
  }
  for (let c = 0; c < w; c++) base[c] += of(c);
}
function drawHeldLine(x, Y) {
  x.strokeStyle = C.ink;
  x.lineWidth = 1.6;
  x.beginPath();
  for (let c = 0; c < cols.width; c++) {
    const y = Y(cols.held[c]);
    if (c === 0) x.moveTo(PAD_LEFT, y); else x.lineTo(PAD_LEFT + c, y);
    x.lineTo(PAD_LEFT + c + 1, y);
  }
  x.stroke();
}
function drawDevice(x, width, y) {
  const text = 'device ' + bytes(M.capacity);
  x.strokeStyle = C.bad;
  x.setLineDash([5, 4]);
  x.lineWidth = 1.2;
  x.beginPath();
  x.moveTo(PAD_LEFT, y);
  x.lineTo(PAD_LEFT + width, y);
  x.stroke();
  x.setLineDash([]);
  x.textAlign = 'left';
  x.fillStyle = C.card;
  x.fillRect(PAD_LEFT + 3, y - 8, x.measureText(text).width + 6, 15);
  x.fillStyle = C.bad;
  x.fillText(text, PAD_LEFT + 6, y);
}
function drawMark(x, row, text, color, width, height) {
  if (row < left || row > right) return;
  const X = PAD_LEFT + place(row, left, right) * width, long = x.measureText(text).width;
  const isLeft = X + 8 + long > PAD_LEFT + width;
  x.fillStyle = color;
  x.fillRect(X - .75, 0, 1.5, height);
  x.fillStyle = C.card;
  x.globalAlpha = .85;
  x.fillRect(isLeft ? X - 10 - long : X + 4, 3, long + 8, 17);
  x.globalAlpha = 1;
  x.fillStyle = color;
  x.textAlign = isLeft ? 'right' : 'left';
  x.fillText(text, isLeft ? X - 6 : X + 8, 12);
}
function drawLane(x, width, y) {
  x.fillStyle = C.faint;
  x.fillRect(PAD_LEFT, y, width, LANE);
  x.fillStyle = C.soft;
  x.textAlign = 'right';
  x.fillText('driver', PAD_LEFT - 6, y + LANE / 2);
  let most = 1;
  for (let c = 0; c < cols.width; c++) most = Math.max(most, cols.taken[c] + cols.given[c]);
  for (let c = 0; c < cols.width; c++) {
    const calls = cols.taken[c] + cols.given[c];
    if (calls === 0) continue;
    const full = Math.max(5, Math.log1p(calls) / Math.log1p(most) * LANE), part = full * cols.taken[c] / calls;
    x.fillStyle = C.taken;
    x.fillRect(PAD_LEFT + c, y + LANE - part, 1.4, part);
    x.fillStyle = C.given;
    x.fillRect(PAD_LEFT + c, y + LANE - full, 1.4, full - part);
  }
  x.fillStyle = C.ink;
  x.textAlign = 'center';
  for (let c = 0; c < cols.width; c++) if (cols.waits[c]) x.fillText('▼', PAD_LEFT + c, y - 2);
}
const hasLane = () => M.knows_held || W.length > 0;
function drawChart() {
  const [x, w, h] = canvas($('chart')), width = Math.max(50, Math.floor(w - PAD_LEFT - PAD_RIGHT));
  const height = h - 26 - (hasLane() ? LANE + 8 : 0);
  cols = columns(left, right, width);
  let most = 1;
  for (let c = 0; c < width; c++) most = Math.max(most, cols.top[c], M.knows_held ? cols.held[c] : 0);
  if (M.capacity && M.capacity / UNIT < most * 1.6) most = Math.max(most, M.capacity / UNIT);
  const top = most * 1.07, Y = units => height - units / top * (height - 8);
  x.textAlign = 'right';
  for (let at = 0, step = stepOf(top); at < top; at += step) {
    x.fillStyle = C.line;
    x.fillRect(PAD_LEFT, Math.round(Y(at)), width, 1);
    x.fillStyle = C.soft;
    x.fillText(size(at), PAD_LEFT - 6, Math.max(8, Y(at)));
  }
  const base = new Float64Array(width);
  for (let g = 0; g < HELD; g++) if (names[g] !== undefined) drawGroup(x, g, base, Y, height, top);
  if (M.knows_held) drawHeldLine(x, Y);
  if (M.capacity && M.capacity / UNIT <= top) drawDevice(x, width, Math.round(Y(M.capacity / UNIT)) + .5);
  const isNear = R.row.some(r => Math.abs(place(M.peak, left, right) - place(r, left, right)) * width < 130);
  if (!isNear) drawMark(x, M.peak, 'peak', C.ink, width, height);
  R.row.slice(-20).forEach(r => drawMark(x, r, '✕ out of memory', C.bad, width, height));
  if (hasLane()) drawLane(x, width, height + 8);
  x.fillStyle = C.soft;
  for (let q = 0, ticks = width > 700 ? 6 : 3; q <= ticks; q++) {
    x.textAlign = q === 0 ? 'left' : q === ticks ? 'right' : 'center';
    x.fillText(num(events[rowAt(q / ticks, left, right)]), PAD_LEFT + q / ticks * width, h - 8);
  }
  x.textAlign = 'right';
  x.fillText('event', PAD_LEFT - 6, h - 8);
  drawCursor();
}
function drawCursor() {
  const [x, w, h] = canvas($('over'));
  if (moment < left || moment > right) return;
  const X = PAD_LEFT + place(moment, left, right) * (w - PAD_LEFT - PAD_RIGHT);
  x.fillStyle = C.accent;
  x.fillRect(X - 1, 0, 2, h - 18);
  x.beginPath();
  x.arc(X, 5, 5, 0, 7);
  x.fill();
}
/* The whole run; what is not in view is pale. */
function drawStrip() {
  const [x, w, h] = canvas($('strip')), width = Math.max(50, Math.floor(w - PAD_LEFT - PAD_RIGHT));
  if (!strip || strip.width !== width) strip = columns(0, N - 1, width);
  let most = 1;
  for (let c = 0; c < width; c++) most = Math.max(most, strip.top[c], M.knows_held ? strip.held[c] : 0);
  x.fillStyle = C.faint;
  x.fillRect(PAD_LEFT, 0, width, h);
  for (let c = 0; c < width; c++) {
    const held = M.knows_held ? strip.held[c] / most * (h - 4) : 0, live = strip.top[c] / most * (h - 4);
    x.fillStyle = C.line;
    x.fillRect(PAD_LEFT + c, h - held, 1, held);
    x.fillStyle = C.soft;
    x.fillRect(PAD_LEFT + c, h - live, 1, live);
    x.fillStyle = C.bad;
    if (strip.failed[c]) x.fillRect(PAD_LEFT + c - 1, 0, 2.5, h);
  }
  const from = PAD_LEFT + place(left, 0, N - 1) * width, to = PAD_LEFT + place(right, 0, N - 1) * width;
  x.fillStyle = C.paper;
  x.globalAlpha = .65;
  x.fillRect(PAD_LEFT, 0, from - PAD_LEFT, h);
  x.fillRect(to, 0, PAD_LEFT + width - to, h);
  x.globalAlpha = 1;
  x.fillStyle = C.ink;
  for (const edge of [from, to]) {
    x.fillRect(edge - 1.5, 0, 3, h);
    x.fillRect(edge - 4, h / 2 - 9, 8, 18);
  }
  x.fillStyle = C.soft;
  x.textAlign = 'right';
  x.fillText('all', PAD_LEFT - 6, h / 2);
}
