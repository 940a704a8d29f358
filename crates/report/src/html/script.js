'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const NS = 'http://www.w3.org/2000/svg';
  const PAGE = 200;
  const byId = id => document.getElementById(id);

  // Text is only ever set as text: what comes from sources and programs is never markup.
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    return fill(element, attributes, children);
  };
  // Names of the program stand between backticks.
  const words = text => text.split('`').map((part, at) => (at % 2 ? make('code', {}, part) : part));
  const draw = (name, attributes = {}, ...children) => fill(document.createElementNS(NS, name), attributes, children);
  const fill = (element, attributes, children) => {
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(key, value === true ? '' : value);
    }
    element.append(...children.filter(child => child !== null && child !== undefined));
    return element;
  };
  const number = value => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
  const plural = (count, word) => `${number(count)} ${word}${count === 1 ? '' : 's'}`;
  const large = digits => digits.length <= 9 ? number(digits) : `${digits[0]}.${digits.slice(1, 3)}e${digits.length - 1}`;

  // ---- overview ----
  const overview = () => {
    const header = byId('overview');
    const counts = { error: 0, warning: 0, note: 0 };
    for (const finding of data.findings) counts[finding.level] += 1;
    const clean = counts.warning ? `no errors, ${plural(counts.warning, 'warning')}` : data.command === 'prove' ? 'verified' : 'clean';
    const words = { clean, findings: plural(counts.error, 'error'), unknown: 'unknown' };
    header.append(make('h1', {}, make('span', { class: `badge ${data.verdict}` }, words[data.verdict]),
      `crashproof ${data.command}`, make('small', { class: 'mono' }, data.subject)));
    header.append(make('p', { class: 'summary' }, data.summary));
    const names = {
      failure_points: 'crash points', recoveries: 'recoveries run', behaviors: 'distinct behaviors explored',
      recoveries_saved: 'skipped as equivalent', eager_states: 'by brute force', events: 'PM events', seconds: 'seconds',
    };
    const list = make('dl', { class: 'figures' });
    for (const [key, name] of Object.entries(names)) {
      const value = data.stats[key];
      if (value === undefined || (key === 'seconds' && value < 0.1)) continue;
      const shown = key === 'seconds' ? Number(value).toFixed(2) : large(String(value));
      list.append(make('div', {}, make('dt', {}, name), make('dd', {}, shown)));
    }
    if (list.children.length) byId('figures').append(list);
    const box = (title, lines, look, where = header) => {
      if (lines.length) where.append(make('div', { class: `box ${look}` }, make('b', {}, title), make('ul', {}, ...lines.map(line => make('li', {}, line)))));
    };
    box('Not covered', data.incomplete, '');
    const after = byId('notes');
    box('Notes', data.notes, 'plain', after);
    box('Left out of this page', data.left_out, 'plain', after);
    box('Findings that do not count', data.set_aside, 'plain', after);
    const footer = byId('figures');
    const bounds = Object.entries(data.bounds).filter(([, value]) => !['object', 'boolean'].includes(typeof value)).map(([key, value]) => `${key.replaceAll('_', ' ')}: ${value}`);
    if (bounds.length) footer.append(make('p', { class: 'summary' }, `Bounds of this verdict: ${bounds.join('; ')}.`));
  };

  // ---- filters ----
  const state = { text: '', levels: new Set(['error', 'warning', 'note']), rule: '', limit: PAGE, open: new Set() };
  const filters = () => {
    const form = byId('filters');
    form.addEventListener('submit', event => event.preventDefault());
    form.append(make('input', {
      type: 'search', id: 'search', placeholder: 'file, function, message …', 'aria-label': 'Search findings',
      oninput: event => { state.text = event.target.value.toLowerCase(); state.limit = PAGE; list(); },
    }));
    const levels = ['error', 'warning', 'note'].filter(level => data.findings.some(it => it.level === level));
    for (const level of levels) {
      const count = data.findings.filter(it => it.level === level).length;
      form.append(make('label', {}, make('input', {
        type: 'checkbox', checked: true, 'data-level': level,
        onchange: event => { event.target.checked ? state.levels.add(level) : state.levels.delete(level); list(); },
      }), `${plural(count, level)}`));
    }
    const rules = [...new Set(data.findings.map(it => it.rule))];
    if (rules.length > 1) {
      const select = make('select', { id: 'rule', 'aria-label': 'Rule', onchange: event => { state.rule = event.target.value; list(); } },
        make('option', { value: '' }, 'all rules'), ...rules.map(rule => make('option', { value: rule }, rule)));
      form.append(select);
    }
    form.hidden = data.findings.length === 0;
  };
  const fits = finding => state.levels.has(finding.level) && (!state.rule || finding.rule === state.rule) &&
    (!state.text || textOfAll(finding).includes(state.text));
  const textOfAll = finding => {
    finding.all ??= [finding.file, finding.line, finding.function, finding.message, finding.rule, finding.fingerprint,
      finding.detail?.cause?.message, finding.detail?.fix?.message, finding.detail?.output,
      ...(finding.detail?.steps ?? []).flatMap(step => [`${step.file}:${step.line}`, step.message])].join(' ').toLowerCase();
    return finding.all;
  };

  // ---- list ----
  const list = () => {
    const shown = data.findings.map((finding, index) => [finding, index]).filter(([finding]) => fits(finding));
    const visible = shown.slice(0, state.limit);
    const groups = new Map();
    for (const [finding, index] of visible) {
      const key = `${(finding.detail?.cause?.kind ?? finding.rule).replaceAll('-', ' ')} · ${finding.file}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(article(finding, index));
    }
    const several = visible.length > 6 && groups.size > 1;
    byId('findings').replaceChildren(...[...groups].flatMap(([key, articles]) => several
      ? [make('h2', { class: 'group' }, key, make('small', {}, plural(articles.length, 'finding'))), ...articles] : articles));
    byId('shown').textContent = data.findings.length === 0 ? 'No findings.' :
      `${plural(shown.length, 'finding')} of ${number(data.findings.length)}${shown.length > visible.length ? `, the first ${number(visible.length)} shown` : ''}`;
    byId('more').hidden = shown.length <= visible.length;
  };
  byId('more').addEventListener('click', () => { state.limit += PAGE; list(); });

  // Deep links: #f3 opens a finding; n and p go to the next and the previous one.
  const openLinked = () => {
    const index = Number(/^#f(\d+)$/.exec(location.hash)?.[1] ?? NaN);
    if (!(index in data.findings)) return;
    state.open.add(index);
    state.limit = Math.max(state.limit, index + 1);
    list();
    byId(`f${index}`)?.scrollIntoView({ block: 'start' });
  };
  addEventListener('hashchange', openLinked);
  addEventListener('keydown', event => {
    const step = { n: 1, p: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    const all = [...document.querySelectorAll('article')];
    const current = all.findIndex(it => it.id === location.hash.slice(1));
    const next = all[current + step] ?? all[step > 0 ? 0 : all.length - 1];
    if (next) location.hash = next.id;
  });

  const article = (finding, index) => {
    const where = finding.line ? `${finding.file}:${finding.line}` : finding.file;
    const button = make('button', { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': `d${index}` },
      make('span', { class: `badge small ${finding.level}` }, finding.level),
      make('span', { class: 'what' }, make('b', {}, ...words(finding.message)),
        make('span', { class: 'where mono' }, `${where}${finding.function ? ` in ${finding.function}` : ''} · ${finding.rule}`)),
      finding.count > 1 ? make('span', { class: 'times' }, `met ${number(finding.count)} times`) : null);
    const element = make('article', { id: `f${index}`, 'data-rule': finding.rule, 'data-level': finding.level }, make('h2', {}, button));
    const toggle = open => {
      button.setAttribute('aria-expanded', String(open));
      element.querySelector('.detail')?.remove();
      open ? state.open.add(index) : state.open.delete(index);
      if (open) element.append(detail(finding, index));
    };
    button.addEventListener('click', () => {
      const open = button.getAttribute('aria-expanded') !== 'true';
      toggle(open);
      if (open) history.replaceState(null, '', `#f${index}`);
    });
    if (state.open.has(index)) toggle(true);
    return element;
  };

  // ---- one finding ----
  const detail = (finding, index) => {
    const box = make('div', { class: 'detail', id: `d${index}` });
    const more = finding.detail;
    if (!more) {
      box.append(make('p', {}, 'The details of this finding were left out to keep the page small; --format json has them.'));
      return box;
    }
    const select = key => {
      for (const hit of box.querySelectorAll('.hit')) hit.classList.remove('hit');
      for (const it of box.querySelectorAll('[data-place]')) if (it.dataset.place === key) it.classList.add('hit');
      const row = box.querySelector('.row.hit');
      const lines = row?.closest('.lines');
      if (row) (lines.scrollHeight > lines.clientHeight ? row : lines).scrollIntoView({ block: 'nearest' });
      box.querySelector('svg .ev.hit')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    };
    const heading = text => box.append(make('h3', {}, text));
    // A store already listed as lost or surviving is not listed again as one that might have been read.
    const isTold = step => step.role === 'candidate' && more.steps.some(it => (it.role === 'lost' || it.role === 'survived') &&
      keyOf(it) === keyOf(step) && it.message.startsWith(step.message));
    const steps = more.steps.filter(step => !isTold(step));
    if (more.cause) { heading('Cause'); box.append(make('p', {}, ...words(more.cause.message))); }
    if (more.fix && (more.fix.edits.length || !more.steps.some(step => step.role === 'fix' && step.message === more.fix.message))) {
      heading('Fix');
      box.append(make('p', {}, ...words(more.fix.message)), ...more.fix.edits.map(edit => make('pre', {}, `${edit.file}:${edit.line}\n+ ${edit.text}`)));
    }
    if (steps.length) {
      heading('What happens');
      const item = step => make('li', {}, make('button', {
        type: 'button', 'data-place': keyOf(step), onclick: () => select(keyOf(step)),
      }, make('span', { class: `role ${step.role}` }, step.role), make('span', { class: 'place mono' }, `${step.file}:${step.line}`),
        make('span', { class: 'said mono', title: step.detail ?? '' }, ...words(step.message))));
      // The rest is folded.
      const main = steps.filter(step => step.main), rest = steps.filter(step => !step.main);
      const few = !main.length || rest.length < 4;
      box.append(make('ol', { class: 'steps' }, ...(few ? steps : main).map(item)));
      if (!few) box.append(make('details', {}, make('summary', {}, `${number(rest.length)} more reads and stores`), make('ol', { class: 'steps' }, ...rest.map(item))));
    }
    if (more.story) { heading('Cache lines'); box.append(...timeline(more.story, select)); }
    if (more.graph) { heading(more.graph.caption || 'The counterexample'); box.append(...graph(more.graph, select)); }
    const shown = sources(finding, more, select);
    if (shown.length) { heading('Source'); box.append(make('div', { class: 'sources' }, ...shown)); }
    if (more.output || more.failed) { heading('What recovery said'); box.append(make('pre', {}, [more.output, more.failed].filter(Boolean).join('\n'))); }
    const said = [...more.evidence, ...more.also.map(it => `also: ${it.message} (met ${number(it.count)} times)`)];
    if (said.length) { heading('Also'); box.append(make('ul', {}, ...said.map(it => make('li', {}, it)))); }
    if (more.trace.length) { heading('The execution, step by step'); box.append(make('ol', {}, ...more.trace.map(it => make('li', {}, it)))); }
    if (more.frames.length) { heading('Calls'); box.append(make('pre', {}, more.frames.join('\n'))); }
    if (more.replay) {
      heading('Replay');
      const command = `crashproof replay ${more.replay_id ?? more.replay}`;
      box.append(make('div', { class: 'again' }, make('pre', {}, command), make('button', {
        type: 'button', onclick: event => navigator.clipboard?.writeText(command).then(() => { event.target.textContent = 'Copied'; }),
      }, 'Copy')));
    }
    const rule = data.rules[finding.rule];
    if (rule) {
      heading(`${finding.rule}: ${rule.title}`);
      // The text is wrapped for terminals: paragraphs flow, lists and code keep their lines.
      for (const paragraph of rule.explanation.trim().split(/\n{2,}/)) {
        const asWritten = /^( {2,}|[-*|] )/m.test(paragraph);
        box.append(asWritten ? make('pre', {}, paragraph) : make('p', {}, ...words(paragraph.replaceAll('\n', ' '))));
      }
    }
    heading('Fingerprint');
    box.append(make('code', {}, finding.fingerprint));
    return box;
  };
  const keyOf = place => `${place.file}:${place.line}`;
  const textOf = place => (data.sources[place.file] ?? {})[place.line];

  // Comments, strings, numbers and keywords of C, C++ and Rust; a line at a time is enough to read by.
  const TOKEN = /(\/\/.*|\/\*.*?(?:\*\/|$)|^\s*\*\s.*)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])')|\b(0[xX][0-9a-fA-F]+\w*|\d[\d.]*\w*)\b|\b(alignas|as|auto|bool|break|case|char|class|const|constexpr|continue|default|do|double|else|enum|extern|false|float|fn|for|goto|if|impl|inline|int|let|long|loop|match|mod|mut|namespace|new|nullptr|operator|private|pub|public|ref|return|self|short|signed|sizeof|static|struct|switch|template|this|throw|trait|true|try|type|typedef|typename|union|unsafe|unsigned|use|using|virtual|void|volatile|where|while)\b|(^\s*#\s*\w+)/g;
  const colored = text => {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(TOKEN)) {
      const kind = ['comment', 'string', 'number', 'keyword', 'directive'][match.slice(1).findIndex(group => group !== undefined)];
      parts.push(text.slice(end, match.index), make('span', { class: `tok t-${kind}` }, match[0]));
      end = match.index + match[0].length;
    }
    return [...parts, text.slice(end)];
  };

  // The lines around every place that has a part in it; the roles they play are written beside them.
  const sources = (finding, more, select) => {
    const roles = new Map();
    const play = (place, role) => {
      if (!place.line) return;
      const key = keyOf(place);
      if (!roles.has(key)) roles.set(key, { ...place, roles: new Set() });
      if (role) roles.get(key).roles.add(role);
    };
    play(finding, '');
    for (const step of more.steps) play(step, step.role === 'candidate' ? '' : step.role);
    for (const place of more.story?.places ?? []) play(place, '');
    for (const event of more.graph?.events ?? []) play(event.place, '');
    const files = [...new Set([...roles.values()].map(it => it.file))].filter(file => data.sources[file]);
    return files.map(file => {
      const wanted = new Set();
      for (const it of roles.values()) if (it.file === file) for (let line = it.line - 2; line <= it.line + 2; line++) if (textOf({ file, line }) !== undefined) wanted.add(line);
      const rows = [];
      let before = null;
      for (const line of [...wanted].sort((a, b) => a - b)) {
        if (before !== null && line > before + 1) rows.push(make('div', { class: 'row' }, make('span', { class: 'number' }, '⋮')));
        before = line;
        const it = roles.get(keyOf({ file, line }));
        const main = it ? ['lost', 'crash', 'survived', 'read'].find(role => it.roles.has(role)) ?? '' : '';
        const key = keyOf({ file, line });
        rows.push(make('div', it ? {
          class: `row event ${main}`, 'data-place': key, tabindex: '0', role: 'button', onclick: () => select(key),
          onkeydown: event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); select(key); } },
        } : { class: 'row' }, make('span', { class: 'number' }, line), make('span', { class: 'text' }, ...colored(textOf({ file, line }))),
          it ? make('span', { class: 'roles' }, ...[...it.roles].map(role => make('span', { class: `role ${role}` }, role))) : null));
      }
      return make('div', { class: 'file' }, make('div', { class: 'name mono' }, file), make('div', { class: 'lines code' }, ...rows));
    });
  };

  // ---- tooltip ----
  const tip = byId('tip');
  const tell = (element, lines, place) => {
    const show = () => {
      const source = place && textOf(place);
      tip.replaceChildren(...lines.map(line => make('div', {}, line)),
        ...(place ? [make('div', {}, keyOf(place) + (place.function ? ` in ${place.function}` : ''))] : []),
        ...(source ? [make('code', {}, source.trim())] : []));
      tip.hidden = false;
      const at = element.getBoundingClientRect();
      const size = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(8, Math.min(innerWidth - size.width - 8, at.left + at.width / 2 - size.width / 2))}px`;
      tip.style.top = `${at.top - size.height - 8 > 0 ? at.top - size.height - 8 : at.bottom + 8}px`;
    };
    for (const event of ['pointerenter', 'focus']) element.addEventListener(event, show);
    for (const event of ['pointerleave', 'blur']) element.addEventListener(event, () => { tip.hidden = true; });
  };
  addEventListener('keydown', event => { if (event.key === 'Escape') tip.hidden = true; });
  addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });

  // Something to point at, click and reach with the keyboard; arrows lead to its neighbors.
  const active = (classes, label, lines, place, select, ...shapes) => {
    const key = keyOf(place);
    const element = draw('g', { class: `ev ${classes}`, tabindex: '0', role: 'button', 'aria-label': label, 'data-place': key }, ...shapes);
    tell(element, lines, place);
    element.addEventListener('click', () => select(key));
    element.addEventListener('keydown', event => {
      if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); select(key); }
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) {
        const all = [...element.ownerSVGElement.querySelectorAll('.ev')];
        event.preventDefault();
        all[all.indexOf(element) + step]?.focus();
      }
    });
    return element;
  };

  // ---- timeline: a lane a cache line, time from left to right ----
  const WORDS = {
    store: 'store', 'non-temporal-store': 'non-temporal store', rmw: 'locked instruction', 'failed-rmw': 'locked instruction, stored nothing',
    flush: 'clflush', 'flush-opt': 'clwb / clflushopt', 'store-fence': 'sfence', fence: 'mfence', read: 'recovery reads',
  };
  const FATES = { lost: 'lost in the crash', survived: 'survived the crash', certain: 'had surely persisted', plain: '', after: '' };
  const shapeOf = (kind, x, y) => {
    if (kind === 'read') return draw('path', { class: 'shape', d: `M${x} ${y - 8}l8 8l-8 8l-8-8z` });
    if (kind === 'flush' || kind === 'flush-opt') return draw('path', { class: 'shape', d: `M${x - 7} ${y - 6}h14l-7 13z` });
    if (kind === 'rmw' || kind === 'failed-rmw') return draw('rect', { class: 'shape', x: x - 7, y: y - 7, width: 14, height: 14 });
    if (kind === 'store' || kind === 'non-temporal-store') return draw('circle', { class: 'shape', cx: x, cy: y, r: 7.5 });
    return draw('rect', { class: 'shape', x: x - 3, y: y - 8, width: 6, height: 16, rx: 2 });
  };
  const classOf = event => event.kind === 'read' ? 'read' : event.kind.startsWith('flush') ? 'flush' : event.kind.endsWith('fence') ? 'fence' : event.fate;
  const shortened = value => value.length > 12 ? `${value.slice(0, 8)}…${value.slice(-2)}` : value;

  const timeline = (story, select) => {
    const lines = [...new Set(story.executions.flatMap(it => it.lanes.map(lane => lane.address)))].sort((a, b) => BigInt(a) < BigInt(b) ? -1 : 1);
    const TOP = 46, LANE = 62, LEFT = 12, GAP = 56, LETTER = 7.2;
    // What is lost, survives or is read is named; the rest of a line only has its values.
    const memberOf = event => (event.fate === 'lost' || event.fate === 'survived' || event.kind === 'read') && event.name ?
      `${event.name.split(/->|\./).pop().slice(0, 16)} = ` : '';
    const wordOf = event => event.value ? memberOf(event) + shortened(event.shown || event.value) : event.kind.replace('flush-opt', 'clwb')
      .replace('store-fence', 'sfence').replace(/^flush$/, 'clflush').replace(/^fence$/, 'mfence');
    const every = story.executions.flatMap(it => it.events);
    // Labels never meet: each event is as wide as its own.
    const widthOf = (event, several) => Math.max(every.length < 12 ? 78 : 56, (wordOf(event).length + (several ? 4 : 0)) * LETTER + 14);
    const yOf = address => TOP + 24 + lines.indexOf(address) * LANE;
    const bottom = TOP + lines.length * LANE;
    const layers = { back: draw('g'), middle: draw('g'), front: draw('g') };
    let x = LEFT, crashAt = 0;
    for (const execution of story.executions) {
      const start = x;
      const several = new Set(execution.events.map(event => event.thread)).size > 1;
      let wide = 0;
      const xs = execution.events.map(event => {
        const width = widthOf(event, several);
        wide += width;
        return start + 12 + wide - width / 2;
      });
      const title = execution.title + (execution.left_out ? `, after ${number(execution.left_out)} earlier events` : '');
      const end = start + 24 + Math.max(wide, 90, title.length * LETTER + 8);
      layers.back.append(draw('rect', { class: 'panel', x: start, y: 6, width: end - start, height: bottom - 2, rx: 8 }));
      layers.middle.append(draw('text', { class: 'dim', x: start + 12, y: 25 }, title));
      for (const lane of execution.lanes) {
        const y = yOf(lane.address);
        layers.back.append(draw('line', { class: 'lane', x1: start + 8, x2: end - 8, y1: y, y2: y }));
        if (execution.crash && (lane.written_after !== null || lane.written_before !== null)) {
          const from = lane.written_after === null ? start + 8 : xs[lane.written_after] + 9;
          const to = lane.written_before === null ? end - 2 : xs[lane.written_before] - 9;
          const bar = draw('rect', { class: 'window', x: from, y: y - 13, width: Math.max(to - from, 3), height: 26, rx: 6 });
          layers.middle.append(bar);
          tell(bar, ['this line was last written back somewhere in here, if at all'], null);
        }
      }
      execution.events.forEach((event, index) => {
        const place = story.places[event.place];
        const at = xs[index];
        const y = event.lane === null ? bottom - 8 : yOf(execution.lanes[event.lane].address);
        if (event.lane === null) layers.back.append(draw('line', { class: 'fence', x1: at, x2: at, y1: TOP - 8, y2: bottom - 16 }));
        const named = event.name ? ` ${event.name}${event.kind === 'read' ? ':' : ' ='} ${event.shown}` : event.value ? ` ${event.value}` : '';
        const what = `${WORDS[event.kind]}${named}`;
        const target = event.address ? `${event.width ? `${event.width} byte${event.width === 1 ? '' : 's'} ` : 'the line '}at ${event.address}` : '';
        const told = [`${what}${target ? `, ${target}` : ''}`, ...(FATES[event.fate] ? [FATES[event.fate]] : []), ...(several ? [`thread ${event.thread}`] : [])];
        const shapes = [draw('circle', { class: 'halo', cx: at, cy: y, r: 13 }), shapeOf(event.kind, at, y)];
        if (event.fate === 'lost') shapes.push(draw('path', { class: 'cross', d: `M${at - 4} ${y - 4}l8 8m0 -8l-8 8` }));
        const word = wordOf(event);
        shapes.push(draw('text', { class: event.lane === null ? 'dim' : '', x: at, y: event.lane === null ? y + 20 : y + 24, 'text-anchor': 'middle' }, several ? `${word} T${event.thread}` : word));
        layers.front.append(active(classOf(event), told.join(', '), told, place, select, ...shapes));
      });
      x = end;
      if (execution.crash) {
        const at = end + GAP / 2;
        crashAt = at;
        let bolt = `M${at} 30`;
        for (let y = 30, side = 1; y < bottom - 6; y += 14, side = -side) bolt += `l${side * 6} 14`;
        const place = story.places[execution.crash.place];
        const told = [`the power fails ${execution.crash.message}`];
        layers.front.append(active('crashed', told[0], told, place, select, draw('rect', { class: 'halo', x: at - 14, y: 4, width: 28, height: bottom - 2, rx: 6 }),
          draw('path', { class: 'crash', d: bolt }), draw('text', { class: 'crashword', x: at, y: 20, 'text-anchor': 'middle' }, 'crash')));
        x = end + GAP;
      }
    }
    // Lanes are named after what is stored there; the names stay while the timeline is scrolled.
    const nameOf = address => story.executions.flatMap(it => it.lanes).find(lane => lane.address === address && lane.name)?.name ?? address;
    const cut = text => text.length > 26 ? `${text.slice(0, 25)}…` : text;
    const side = 20 + Math.max(...lines.map(address => cut(nameOf(address)).length), 4) * LETTER;
    const labels = lines.map(address => draw('text', { x: 10, y: yOf(address) + 4 }, cut(nameOf(address)), draw('title', {}, `${nameOf(address)}, cache line ${address}`)));
    const height = bottom + 18;
    const names = draw('svg', { class: 'names', width: side, height, viewBox: `0 0 ${side} ${height}`, 'aria-label': 'Cache lines' }, ...labels);
    const picture = draw('svg', { width: x + 12, height, viewBox: `0 0 ${x + 12} ${height}`, role: 'group', 'aria-label': 'Timeline of the crash' },
      layers.back, layers.middle, layers.front);
    const chart = make('div', { class: 'chart lanes' }, names, picture);
    // A long run begins far to the left of where it matters.
    requestAnimationFrame(() => { chart.scrollLeft = crashAt - chart.clientWidth * 0.6; });
    const mini = (kind, fate) => {
      const g = draw('g', { class: `ev ${fate}` }, shapeOf(kind, 9, 9));
      if (fate === 'lost') g.append(draw('path', { class: 'cross', d: 'M5 5l8 8m0 -8l-8 8' }));
      return draw('svg', { width: 18, height: 18, 'aria-hidden': 'true' }, g);
    };
    const used = new Set(story.executions.flatMap(it => it.events.map(event => classOf(event))));
    const bar = draw('svg', { width: 26, height: 18, 'aria-hidden': 'true' }, draw('rect', { class: 'window', x: 0, y: 2, width: 26, height: 14, rx: 5 }));
    const keys = [['store', 'certain', 'store, surely persistent'], ['store', 'survived', 'store that survived'], ['store', 'lost', 'store that was lost'],
      ['store', 'plain', 'store nobody read'], ['flush', 'flush', 'flush'], ['fence', 'fence', 'fence'], ['read', 'read', 'recovery reads']]
      .filter(([, fate]) => used.has(fate)).map(([kind, fate, words]) => make('li', {}, mini(kind, fate), words));
    keys.push(make('li', {}, bar, 'the line was last written back in here, if at all'));
    const dropped = story.executions.reduce((sum, it) => sum + it.lanes_left_out, 0);
    if (dropped) keys.push(make('li', {}, `${plural(dropped, 'more line')} not drawn`));
    return [chart, make('ul', { class: 'legend' }, ...keys)];
  };

  // ---- event graph: a column a thread, program order downward ----
  const EDGES = { po: 'program order', rf: 'reads from', co: 'coherence', fr: 'from-read', flush: 'makes persistent' };
  const graph = (shown, select) => {
    const COLUMN = 250, ROW = 62, WIDTH = 164, HEIGHT = 34, TOP = 44, LEFT = 70;
    const columns = shown.threads.length;
    const rows = new Array(columns + 1).fill(0);
    const places = shown.events.map(event => {
      const column = event.thread === null ? columns : event.thread;
      return { x: LEFT + (event.thread === null ? 0 : column) * COLUMN, y: event.thread === null ? TOP : TOP + (shown.events.some(it => it.thread === null) ? ROW : 0) + rows[column]++ * ROW };
    });
    // Initial contents stand side by side above the threads.
    const initial = shown.events.map((event, index) => event.thread === null ? index : -1).filter(index => index >= 0);
    initial.forEach((index, position) => { places[index].x = LEFT + position * (WIDTH + 16); places[index].y = TOP; });
    const width = Math.max(columns * COLUMN, initial.length * (WIDTH + 16)) + LEFT + 20;
    const height = Math.max(...places.map(place => place.y), TOP) + HEIGHT + 30;
    const arrows = Object.keys(EDGES).map(kind => draw('marker', { id: `arrow-${kind}`, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' },
      draw('path', { d: 'M0 0l8 4l-8 4z', class: `head ${kind === 'flush' ? 'flush-edge' : kind}` })));
    const edges = shown.edges.map(edge => {
      const [a, b] = [places[edge.from], places[edge.to]];
      const same = a.x === b.x;
      const near = same && Math.abs(a.y - b.y) <= ROW && edge.kind === 'po';
      const from = { x: same ? (near ? a.x + WIDTH / 2 : a.x) : a.x < b.x ? a.x + WIDTH : a.x, y: near ? a.y + HEIGHT : a.y + HEIGHT / 2 };
      const to = { x: same ? (near ? b.x + WIDTH / 2 : b.x) : a.x < b.x ? b.x : b.x + WIDTH, y: near ? b.y - 2 : b.y + HEIGHT / 2 };
      const bend = same && !near ? -46 : 0;
      const middle = (from.x + to.x) / 2;
      const d = near ? `M${from.x} ${from.y}L${to.x} ${to.y}` : same ? `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x + bend} ${to.y} ${to.x - 1} ${to.y}` : `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
      const path = draw('path', { class: `edge ${edge.kind === 'flush' ? 'flush-edge' : edge.kind}`, d, 'marker-end': `url(#arrow-${edge.kind})` });
      tell(path, [`${EDGES[edge.kind]}: ${shown.events[edge.from].text} → ${shown.events[edge.to].text}`], null);
      return path;
    });
    const nodes = shown.events.map((event, index) => {
      const { x, y } = places[index];
      const told = [event.text, ...(FATES[event.fate] ? [FATES[event.fate]] : [])];
      return active(event.fate, told.join(', '), told, event.place, select, draw('rect', { class: 'halo', x: x - 4, y: y - 4, width: WIDTH + 8, height: HEIGHT + 8, rx: 10 }),
        draw('rect', { class: 'node', x, y, width: WIDTH, height: HEIGHT, rx: 7 }),
        draw('text', { x: x + WIDTH / 2, y: y + 21, 'text-anchor': 'middle' }, event.text.length > 24 ? `${event.text.slice(0, 23)}…` : event.text));
    });
    const titles = shown.threads.map((title, index) => draw('text', { class: 'dim', x: LEFT + index * COLUMN + WIDTH / 2, y: 24, 'text-anchor': 'middle' }, title));
    const picture = draw('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Event graph' }, draw('defs', {}, ...arrows), ...titles, ...edges, ...nodes);
    const kinds = [...new Set(shown.edges.map(edge => edge.kind))];
    const legend = kinds.map(kind => make('li', {}, draw('svg', { width: 26, height: 12, 'aria-hidden': 'true' }, draw('path', { class: `edge ${kind === 'flush' ? 'flush-edge' : kind}`, d: 'M0 6h26' })), `${kind}: ${EDGES[kind]}`));
    return [make('div', { class: 'chart' }, picture), make('ul', { class: 'legend' }, ...legend)];
  };

  overview();
  filters();
  // The first finding is what one came for.
  if (data.findings.length) state.open.add(0);
  list();
  openLinked();
  // Printed, nothing should be hidden; a very long list would take forever.
  addEventListener('beforeprint', () => { data.findings.slice(0, 50).forEach((_, index) => state.open.add(index)); list(); });
})();
