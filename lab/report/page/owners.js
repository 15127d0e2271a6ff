/* Tables: who holds memory, what the allocator did, what others need. */
const HEAD = [['name', 'owner', ''], ['now', 'now', ''], ['share', 'share', 'opt'], ['blocks', 'blocks', 'opt'], ['old', 'oldest', 'opt'],
  ['most', 'most, at event', ''], ['grew', 'since view', 'opt'], ['trend', 'trend', 'phone']];
const FEW = 12;
let sortBy = 'now', showsAll = false, chosen = -1;
let was = null, wasAt = -1;

/* What each held at a row. */
function heldAt(row) {
  if (wasAt === row) return was;
  was = new Float64Array(M.owners.length);
  wasAt = row;
  for (let b = 0; b < M.blocks; b++) if (B.a[b] <= row && row < B.f[b]) was[B.owner[b]] += B.size[b];
  return was;
}
function spark(h) {
  const low = floors.map(f => f[h]), most = Math.max(...low, 1), isBad = M.owners[h].growth_bytes > 0;
  const points = low.map((v, i) => `${(i * 96 / (STRETCHES - 1)).toFixed(1)},${(20.5 - v / most * 18).toFixed(1)}`).join(' ');
  return `<svg class="spark" viewBox="0 0 96 22" aria-hidden="true"><polyline fill="none" stroke="${isBad ? C.bad : C.soft}" stroke-width="${isBad ? 2 : 1.4}" points="${points}"/></svg>`;
}
const TRENDS = {leaks: 'leak?', grows: 'grows by changing sizes', new: 'new'};
const isWhole = () => left === 0 && right === N - 1;
function ownerRow(h, sums, all) {
  const d = M.owners[h], g = groupOfOwner[h], part = sums.now[h] / (all || 1) * 100, change = sums.now[h] - sums.was[h];
  const trend = d.trend ? `<span class="leak">${TRENDS[d.trend]}${d.growth_bytes ? ' +' + bytes(d.growth_bytes) : ''}</span>` : '';
  return `<tr data-h="${h}" class="${h === chosen || h === focus ? 'on' : ''}" tabindex="0"><td class="name">${swatch(g, letter(h))} ${esc(d.name)}${trend}</td>` +
    `<td>${size(sums.now[h])}</td><td class="opt"><span class="share"><i style="width:${part}%;background:${C.of[g < 0 ? OTHERS : g]}"></i></span>${part.toFixed(0)} %</td>` +
    `<td class="opt">${num(sums.blocks[h])}</td><td class="opt">${sums.oldest[h] === NEVER ? '–' : num(ago(sums.oldest[h]))}</td>` +
    `<td>${size(most[h])} <button data-row="${mostAt[h]}" title="Show this moment">${num(events[mostAt[h]])}</button></td>` +
    (isWhole() ? '' : `<td class="opt ${change > 0 && d.growth_bytes ? 'bad' : ''}">${change > 0 ? '+' : ''}${change === 0 ? '0' : size(change)}</td>`) + `<td class="phone">${spark(h)}</td></tr>`;
}
function drawOwners() {
  const many = M.owners.length;
  const sums = {now: new Float64Array(many), blocks: new Uint32Array(many), oldest: new Uint32Array(many).fill(NEVER),
    was: isWhole() ? new Float64Array(many) : heldAt(left)};
  for (const b of now.live) {
    const h = B.owner[b];
    sums.now[h] += B.size[b];
    sums.blocks[h]++;
    sums.oldest[h] = Math.min(sums.oldest[h], B.a[b]);
  }
  const order = [];
  for (let h = 0; h < many; h++) if (most[h]) order.push(h);
  const keys = {now: h => -sums.now[h], most: h => -most[h], share: h => -sums.now[h], blocks: h => -sums.blocks[h], old: h => sums.oldest[h],
    grew: h => sums.was[h] - sums.now[h], trend: h => -(M.owners[h].growth_bytes || 0)};
  const key = keys[sortBy], name = h => M.owners[h].name;
  order.sort((p, q) => most[q] - most[p]).sort(key ? (p, q) => key(p) - key(q) : (p, q) => name(p) < name(q) ? -1 : 1);
  $('who').tHead.innerHTML = '<tr>' + HEAD.filter(h => h[0] !== 'grew' || !isWhole()).map(([k, text, on]) =>
    `<th class="${on}"><button data-k="${k}" aria-label="Sort by ${text}">${text}${k === sortBy ? ' ▾' : ''}</button></th>`).join('') + '</tr>';
  const shown = showsAll ? order.slice(0, 2000) : order.filter((h, i) => i < FEW || letterOf[h] < OTHERS);
  $('who').tBodies[0].innerHTML = shown.map(h => ownerRow(h, sums, now.liveBytes)).join('');
  $('more').hidden = !showsAll && order.length === shown.length;
  $('more').textContent = showsAll ? 'show fewer' : 'show all ' + num(order.length);
}

/* How many of each kind are before a row, and their units; known before each STEP rows. */
let callsBefore = null;
function countCall(counts, i) {
  const k = kind[i];
  counts[k]++;
  counts[KINDS + k] += amountOf(i);
}
function callsAt(row) {
  if (!callsBefore) {
    callsBefore = [];
    for (let i = 0, counts = new Float64Array(2 * KINDS); i < N; i++) {
      if (i % STEP === 0) callsBefore.push(counts.slice());
      countCall(counts, i);
    }
  }
  const step = Math.min(callsBefore.length - 1, Math.floor(row / STEP)), counts = callsBefore[step].slice();
  for (let i = step * STEP; i < row; i++) countCall(counts, i);
  return counts;
}
function countCalls(from, to) {
  const first = callsAt(from), last = callsAt(to + 1);
  return Array.from({length: KINDS}, (_, k) => [last[k] - first[k], last[KINDS + k] - first[KINDS + k]]);
}
function drawCalls() {
  const view = countCalls(left, right), all = countCalls(0, N - 1);
  const rows = [[ALLOC, 'allocations', ''], [FREE, 'frees', '']];
  if (M.knows_held) rows.push([TAKE, 'took memory from the driver', C.taken], [GIVE, 'gave memory back', C.given]);
  if (M.is_recording) rows.push([WAIT, 'the CPU waited for the GPU', '']);
  rows.push([REFUSE, 'out of memory', C.bad]);
  $('did').innerHTML = '<tr><th>what</th><th>view</th><th>bytes</th><th>run</th><th>bytes</th></tr>' + rows.map(([k, text, color]) =>
    `<tr><td>${color ? plain(color) + ' ' : ''}${text}</td><td>${num(view[k][0])}</td><td>${tell(k, view[k][1])}</td><td>${num(all[k][0])}</td><td>${tell(k, all[k][1])}</td></tr>`).join('');
}
function drawOthers() {
  const base = M.others.find(o => o.is_this && o.needs_bytes), here = M.others.some(o => o.completes_at_capacity !== undefined);
  if (M.others.length === 0) {
    $('others').innerHTML = '<tr><td>Not simulated (<code>--no-what-if</code>).</td></tr>';
    return;
  }
  const row = o => {
    const change = base && o.needs_bytes ? o.needs_bytes - base.needs_bytes : 0;
    return `<tr><td>${esc(o.name)}${o === base ? ' <span class="soft">(this)</span>' : ''}</td>` +
      `<td>${o.needs_bytes ? (o.is_least ? '' : '≤ ') + bytes(o.needs_bytes) : '?'}</td>` +
      `<td class="${change < 0 ? 'good' : change > 0 ? 'bad' : ''}">${change === 0 ? '' : (change > 0 ? '+' : '') + bytes(change)}</td>` +
      `<td class="opt">${o.needs_bytes ? num(o.host_waits) : ''}</td><td class="opt">${o.needs_bytes ? o.driver_ms.toFixed(1) + ' ms' : ''}</td>` +
      (here ? `<td class="${o.completes_at_capacity ? 'good' : 'bad'}">${o.completes_at_capacity === undefined ? '?' : o.completes_at_capacity ? '✓ fits' : '✕ fails'}</td>` : '') + '</tr>';
  };
  $('others').innerHTML = '<tr><th>allocator</th><th>needs</th><th>against this</th><th class="opt">CPU stalls</th><th class="opt">driver</th>' +
    (here ? `<th>on ${bytes(M.capacity)}</th>` : '') + '</tr>' + M.others.map(row).join('');
}
