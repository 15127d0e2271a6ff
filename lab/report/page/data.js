'use strict';
/* What the file holds: its model and its rows, as typed arrays. Bytes are counted in units of 512. */
const START = performance.now();
const $ = id => document.getElementById(id);
const UNIT = 512, NEVER = 0xFFFFFFFF, STRETCHES = 24;
const ALLOC = 0, FREE = 1, TAKE = 2, GIVE = 3, REFUSE = 4, PLACE = 5, UNPLACE = 6, WAIT = 7, KINDS = 8;
const M = JSON.parse($('model').textContent);
const N = M.rows;
let kind;                                        // of each row
let arg;                                         // its block, segment, failure or wait
let grow;                                        // units that the allocator holds more after it
let events;                                      // allocations and frees before it: its number for people
let B;                                           // blocks: size, address, owner, stream; rows a, w, f
let S;                                           // segments that were taken, given or placed
let R;                                           // requests that failed
let W;                                           // how long the host waited, in microseconds
const K = {addr: [], size: [], stream: [], from: [], to: []};  // chunks: addresses with memory for a while

function size(units) {
  let n = Math.abs(units) * UNIT, i = 0;
  for (; n >= 1000 && i < 5; i++) n /= 1024;
  const digits = i === 0 || n >= 100 ? 0 : n < 10 ? 2 : 1;
  return (units < 0 ? '−' : '') + n.toFixed(digits) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}
const bytes = n => size(n / UNIT);
const time = us => us < 1000 ? num(us) + ' µs' : (us / 1000).toFixed(1) + ' ms';
const num = n => Math.round(n).toLocaleString('en');
const ESCAPES = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};
const esc = text => String(text).replace(/[&<>"]/g, c => ESCAPES[c]);
const streamName = s => M.stream_names[M.streams.indexOf(s)] || (s === 0 ? 'the default stream' : 'stream ' + s.toString(16));

async function unpack(text) {
  const raw = atob(text), packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
/* Seven bits a byte, the lowest first. */
function numbers(packed, out) {
  for (let i = 0, p = 0; i < out.length && p < packed.length; i++) {
    let value = 0, scale = 1, byte;
    do {
      byte = packed[p++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    out[i] = value;
  }
  return out;
}
function sums(changes) {
  let last = 0;
  for (let i = 0; i < changes.length; i++) {
    const z = changes[i];
    changes[i] = last += z % 2 ? -(z + 1) / 2 : z / 2;
  }
  return changes;
}

async function load() {
  const packed = JSON.parse($('data').textContent), c = {};
  await Promise.all(Object.keys(packed).map(async name => { c[name] = await unpack(packed[name]); }));
  $('data').textContent = '';
  kind = numbers(c.kind, new Uint8Array(N));
  const count = new Array(KINDS).fill(0), many = M.blocks;
  for (let i = 0; i < N; i++) count[kind[i]]++;
  const segments = count[TAKE] + count[GIVE] + count[PLACE] + count[UNPLACE], wait = numbers(c.wait, new Float64Array(many));
  B = {size: numbers(c.size, new Float64Array(many)), addr: sums(numbers(c.address, new Float64Array(many))),
    owner: numbers(c.owner, new Uint32Array(many)), stream: numbers(c.stream, new Uint16Array(many)),
    a: new Uint32Array(many), w: new Uint32Array(many).fill(NEVER), f: new Uint32Array(many).fill(NEVER)};
  const sizeBefore = new Float64Array(M.owners.length);
  for (let b = 0; b < many; b++) {
    const h = B.owner[b];
    sizeBefore[h] = B.size[b] = B.size[b] ? B.size[b] - 1 : sizeBefore[h];
  }
  S = {addr: sums(numbers(c.segment_address, new Float64Array(segments))),
    size: numbers(c.segment_size, new Float64Array(segments)), stream: numbers(c.segment_stream, new Float64Array(segments))};
  R = {size: numbers(c.refused_size, new Float64Array(count[REFUSE])), short: numbers(c.refused_short, new Float64Array(count[REFUSE])),
    stream: numbers(c.refused_stream, new Float64Array(count[REFUSE])), row: []};
  W = numbers(c.waited_us, new Float64Array(count[WAIT]));
  const back = numbers(c.back, new Float64Array(count[FREE]));
  arg = new Float64Array(N);
  events = new Uint32Array(N);
  for (let i = 0, block = 0, free = 0, segment = 0, pause = 0; i < N; i++) {
    events[i] = block + free;
    if (kind[i] === ALLOC) {
      B.a[block] = i;
      if (wait[block]) B.w[block] = i + wait[block];
      arg[i] = block++;
    } else if (kind[i] === FREE) {
      arg[i] = block - 1 - back[free++];
      B.f[arg[i]] = i;
    } else if (kind[i] === REFUSE) arg[i] = R.row.push(i) - 1;
    else arg[i] = kind[i] === WAIT ? pause++ : segment++;
  }
  findChunks();
}

/* What a row is about: units of memory, or how long a wait was; and that in words. */
function amountOf(i) {
  const k = kind[i], at = arg[i];
  return k <= FREE ? B.size[at] : k === REFUSE ? R.size[at] : k === WAIT ? W[at] : S.size[at];
}
const tell = (k, amount) => k === WAIT ? time(amount) : size(amount);
/* The first of `list` that ends behind an address; the list is sorted and does not overlap. */
function firstBehind(list, endOf, address) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(list[middle]) <= address) low = middle + 1; else high = middle;
  }
  return low;
}
/* The allocator maps and unmaps memory; what is mapped at once and unmapped in parts is cut. Where
 * rows place it, taken memory has no address. A log
 * names no memory but blocks: there the addresses that were in use before are what is held. */
function findChunks() {
  const now = [], end = c => K.addr[c] + K.size[c];
  grow = new Float64Array(N);
  const begin = (at, to, stream, row) => {
    K.addr.push(at); K.size.push(to - at); K.stream.push(stream); K.from.push(row); K.to.push(Infinity);
    return K.addr.length - 1;
  };
  const remove = (at, to, row) => {
    const first = firstBehind(now, end, at), rest = [];
    let last = first, removed = 0;
    for (; last < now.length && K.addr[now[last]] < to; last++) {
      const c = now[last];
      K.to[c] = row;
      removed += Math.min(end(c), to) - Math.max(K.addr[c], at);
      if (K.addr[c] < at) rest.push(begin(K.addr[c], at, K.stream[c], row));
      if (end(c) > to) rest.push(begin(to, end(c), K.stream[c], row));
    }
    if (last > first) now.splice(first, last - first, ...rest);
    return removed;
  };
  if (M.knows_used) return findUsed(begin);
  for (let i = 0; i < N; i++) {
    const isTaken = kind[i] === TAKE, isMemory = isTaken || kind[i] === GIVE, isPlaced = isTaken || kind[i] === PLACE;
    if (!isMemory && !isPlaced && kind[i] !== UNPLACE) continue;
    const s = arg[i], at = S.addr[s], to = at + S.size[s];
    if (isMemory && M.has_places) grow[i] = isTaken ? S.size[s] : -S.size[s];
    if (to <= at || isMemory && M.has_places) continue;
    const removed = remove(at, to, i);
    if (isMemory) grow[i] = (isTaken ? to - at : 0) - removed;
    if (isPlaced) {
      now.splice(firstBehind(now, end, at), 0, begin(at, to, S.stream[s], i));
    }
  }
}
function findUsed(begin) {
  const used = [];                               // [from, to) that do not touch
  for (let i = 0; i < N; i++) {
    if (kind[i] !== ALLOC) continue;
    const at = B.addr[arg[i]], to = at + B.size[arg[i]], first = firstBehind(used, u => u[1] + 1, at);
    let last = first, from = at, behind = to, next = at;
    for (; last < used.length && used[last][0] <= to; last++) {
      if (used[last][0] > next) grow[i] += used[last][0] - next, begin(next, used[last][0], 0, i);
      next = Math.max(next, used[last][1]);
      from = Math.min(from, used[last][0]);
      behind = Math.max(behind, used[last][1]);
    }
    if (to > next) grow[i] += to - next, begin(next, to, 0, i);
    used.splice(first, last - first, [from, behind]);
  }
}
