/* The state at a moment: live blocks and held chunks by address, what is free, and what keeps it. */
function stateAt(moment) {
  const live = [], chunks = [];
  for (let b = 0; b < M.blocks; b++) if (B.a[b] <= moment && moment < B.f[b]) live.push(b);
  live.sort((p, q) => B.addr[p] - B.addr[q]);
  for (let c = 0; c < K.addr.length; c++) if (K.from[c] <= moment && moment < K.to[c]) chunks.push(c);
  chunks.sort((p, q) => K.addr[p] - K.addr[q]);
  const s = {moment, live, list: [], free: [], held: 0, total: 0, whole: 0, beside: 0, waiting: 0, others: 0, longest: 0,
    pieces: 0, liveBytes: 0, keeps: new Map(), freeOf: new Map()};
  for (const b of live) {
    s.liveBytes += B.size[b];
    if (B.w[b] <= moment) s.waiting += B.size[b];
  }
  for (let i = 0; i <= moment; i++) s.held += grow[i];
  lookInto(s, joined(chunks), kind[moment] === REFUSE && !M.is_recording ? R.stream[arg[moment]] : null);
  return s;
}
/* In a log what was used is one stretch from its first address to its last. */
function joined(chunks) {
  const out = [];
  for (const c of chunks) {
    const last = out[out.length - 1];
    if (M.knows_used && last && last.at + last.size === K.addr[c]) last.size += K.size[c];
    else out.push({at: K.addr[c], size: K.size[c], stream: K.stream[c], offset: 0, used: 0, blocks: 0, largest: -1, gap: false});
  }
  return out;
}
/* The longest piece is what one request could have: of its stream, if it failed; over the borders of
 * chunks only where the allocator joins them. */
function lookInto(s, chunks, stream) {
  let next = 0, run = 0, runEnd = -1, runStream = null;
  for (const k of chunks) {
    const end = k.at + k.size, pieces = [], last = s.list[s.list.length - 1];
    while (next < s.live.length && endOf(s.live[next]) <= k.at) next++;
    let at = k.at, most = 0;
    for (let q = next; q < s.live.length && B.addr[s.live[q]] < end; q++) {
      const b = s.live[q], from = Math.max(at, B.addr[b]), to = Math.min(end, endOf(b));
      if (from > at) pieces.push([at, from - at]);
      if (to > from) k.used += to - from;
      k.blocks++;
      if (to - from > most) most = to - from, k.largest = b;
      at = Math.max(at, to);
    }
    if (at < end) pieces.push([at, end - at]);
    k.offset = s.total;
    k.gap = last !== undefined && last.at + last.size !== k.at;
    for (const [from, length] of pieces) {
      const goesOn = from === runEnd && (from !== k.at || M.joins && runStream === k.stream);
      run = goesOn ? run + length : length;
      runEnd = from + length;
      runStream = k.stream;
      s.pieces += goesOn ? 0 : 1;
      if (stream === null || M.knows_used || stream === k.stream) s.longest = Math.max(s.longest, run);
      s.free.push([from - k.at + k.offset, length, k.used === 0, k.stream]);
    }
    const free = k.size - k.used;
    if (k.used === 0) s.whole += free; else s.beside += free;
    if (stream !== null && stream !== k.stream && !M.knows_used) s.others += free;
    if (free > 0) s.freeOf.set(k.stream, (s.freeOf.get(k.stream) || 0) + free);
    if (k.used > 0 && free > 0) {
      const h = B.owner[k.largest], sum = s.keeps.get(h) || [0, 0];
      s.keeps.set(h, [sum[0] + free, sum[1] + 1]);
    }
    s.total += k.size;
    s.list.push(k);
  }
  s.keeps = [...s.keeps].sort((p, q) => q[1][0] - p[1][0]);
}
/* How many events ago something happened. */
const ago = row => events[moment] + (kind[moment] <= FREE ? 1 : 0) - events[row];
const endOf = b => B.addr[b] + B.size[b];

/* What each owner held at least in each stretch of the run, and the most, with its row. */
let floors, most, mostAt;
function findFloors() {
  const many = M.owners.length, now = new Float64Array(many), low = new Float64Array(many);
  floors = [];
  most = new Float64Array(many);
  mostAt = new Uint32Array(many);
  for (let s = 0, i = 0; s < STRETCHES; s++) {
    for (const end = Math.floor((s + 1) * N / STRETCHES); i < end; i++) {
      if (kind[i] > FREE) continue;
      const b = arg[i], h = B.owner[b];
      now[h] += kind[i] === ALLOC ? B.size[b] : -B.size[b];
      if (now[h] < low[h]) low[h] = now[h];
      if (now[h] > most[h]) most[h] = now[h], mostAt[h] = i;
    }
    floors.push(low.slice());
    low.set(now);
  }
}
