/* What page_test.py asks a page; its names are those of the page's script. */
var probe = {
  states: rows => rows.map(row => {
    const s = stateAt(row), owners = new Map();
    for (const b of s.live) owners.set(B.owner[b], (owners.get(B.owner[b]) || 0) + B.size[b]);
    return {live: s.liveBytes, held: s.held, whole: s.whole, beside: s.beside, others: s.others,
      waiting: s.waiting, longest: s.longest, pieces: s.pieces,
      owners: [...owners].sort((p, q) => p[0] - q[0])};
  }),
  letters: () => [...document.querySelectorAll('#who tbody tr')].map(r => r.dataset.h + r.querySelector('.sw').textContent).sort().join(),
  ownLetters: () => M.owners.map((_, h) => h).filter(h => most[h] > 0).map(h => h + ('ABCDEFGH'[M.letters.indexOf(h)] || '·')).sort().join(),
  /* What the panel says where something begins to wait, and what must be in it. */
  waits: () => [...B.w.keys()].filter(b => B.w[b] !== NEVER && M.knows_held).slice(0, 9).map(b => {
    moment = B.w[b];
    drawMoment();
    const isAlone = now.waiting === B.size[b], kept = [$('waits').textContent, size(now.waiting) + ' waits: '];
    return [...kept, `not in the ${size(now.whole + now.beside)} free`, isAlone ? '1 block of ' + M.owners[B.owner[b]].name : ''];
  }),
  curve: rows => rows.map(row => {
    const c = columns(row, row, 1);
    return [c.top[0], c.held[0]];
  }),
  /* By each part of who asked: what the legend says that the groups have at each row. */
  groups: rows => DIMS.map((d, i) => [d[1], i]).filter(([part]) => said[part]).map(([part, i]) => {
    setDim(i);
    return [part, rows.map(row => {
      moment = row;
      drawMoment();
      const sums = tellGroups(), shown = g => $('keys').querySelector(`[data-g="${g}"]`).textContent;
      return Object.keys(names).map(g => [names[g], sums[g], shown(g) === size(sums[g])]);
    })];
  }),
  /* The columns of a wide view are as high as its rows; its parts are not off by more than one. */
  wide: () => {
    const rows = columnsOfRows(0, N - 1, 3, 3 / N), sums = columnsOfParts(0, N - 1, 3, 3 / N);
    const highest = c => [Math.max(...c.top), Math.max(...c.held), ...COUNTED.map(k => c[k].reduce((p, q) => p + q, 0))];
    return [highest(rows), highest(sums)];
  },
  view: () => [moment, left, right, dim, focus, picked, root.dataset.theme, sortBy].join('/'),
  drawn: () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))),
  box: id => {
    $(id).scrollIntoView({block: 'center'});
    const box = $(id).getBoundingClientRect();
    return [box.left, box.top, box.width, box.height];
  },
  clickLargestBlock: () => probe.drawn().then(() => {
    const box = $('map').getBoundingClientRect();
    const hit = shape.hits.reduce((p, q) => q[1] > p[1] ? q : p), row = Math.floor(hit[0] / shape.rowUnits);
    const x = Math.min(hit[0] + hit[1] / 2, (row + 1) * shape.rowUnits - 1) - row * shape.rowUnits;
    $('map').dispatchEvent(new MouseEvent('click', {clientX: box.left + x * shape.scale,
      clientY: box.top + row * shape.pitch + 3}));
  }),
  frames: async many => {
    for (let i = 0; i < many; i++) {
      go(N * (i * 37 % many + .5) / many);
      await new Promise(requestAnimationFrame);
      view(N * i / (2 * many), N - N * i / (2 * many));
      await new Promise(requestAnimationFrame);
    }
  },
};
