
"use strict";
// Texts are inserted as text nodes only, so no text can become an element.
// A lone surrogate cannot be shown: it becomes the replacement character.
const wellFormed = (_, value) => (typeof value === "string" && value.toWellFormed ? value.toWellFormed() : value);
const { title, examples } = JSON.parse(document.getElementById("data").textContent, wellFormed);
const $ = id => document.getElementById(id);
const make = (tag, text, kind) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};

// ------------------------------------------------------------------------------------------------------------- texts
const NAMES = { " ": "·", "\n": "⏎", "\t": "⇥", "": "∅" };
const code = c => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
// Control and formatting characters are shown by their code points and have no effect.
const CONTROL = /([\u0000-\u0008\u000B-\u001F\u007F-\u009F\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2069\uFEFF])/;
const invisible = text => /^[\p{C}\p{Z}\p{M}]*$/u.test(text);
const special = text => /^(<\w+>|⟨[\w ]+⟩)$/.test(text);
const prose = text => text.split(CONTROL).filter(part => part).map(part => (CONTROL.test(part) ? make("span", code(part), "mark") : part));
const isolated = text => { const node = make("bdi"); node.append(...prose(text)); return node; };
const token = text => {
  const named = Object.hasOwn(NAMES, text);
  const node = make("span", undefined, "token" + (named ? " soft" : invisible(text) || special(text) ? " special" : ""));
  node.append(...(named ? [NAMES[text]] : invisible(text) ? [Array.from(text, code).join(" ")] : prose(text)));
  node.dir = "auto";
  if (text.length > 12) node.title = text.slice(0, 300);
  return node;
};
// For canvases and options, which cannot isolate a direction by style: by characters instead.
const cut = (text, most) => { const all = Array.from(text); return all.length > most ? all.slice(0, most - 1).join("") + "…" : text; };
const flat = (text, most) => "\u2068" + cut(text.split(CONTROL).map((part, n) => (n % 2 ? code(part) : part)).join("").replace(/\s+/g, " "), most) + "\u2069";
const label = text => (Object.hasOwn(NAMES, text) ? NAMES[text] : invisible(text) ? cut(Array.from(text, code).join(" "), 10) : flat(text, 10));
const joined = tokens => {
  if (tokens.some(t => t.startsWith("▁"))) return tokens.join("").replaceAll("▁", " ").trim();
  return tokens.join(tokens.some(t => Array.from(t).length > 1) ? " " : "");
};
const input = e => e.input ?? joined(e.tokens[e.source]);
const output = e => e.output ?? joined(e.tokens[e.target]);
const percent = w => (100 * w).toFixed(1) + " %";

// ----------------------------------------------------------------------------------------------------------- weights
const DIGITS = new Uint8Array(128);
Array.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").forEach((c, n) => { DIGITS[c.charCodeAt(0)] = n; });
const decoded = new WeakMap();
// The weights of a layer, one Float32Array in row-major order per head.
const headsOf = layer => {
  if (!decoded.has(layer)) {
    const text = layer.weights, size = text.length / 2 / layer.heads;
    decoded.set(layer, Array.from({ length: layer.heads }, (_, h) => Float32Array.from({ length: size }, (_, i) => {
      const at = 2 * (h * size + i);
      return (64 * DIGITS[text.charCodeAt(at)] + DIGITS[text.charCodeAt(at + 1)]) / 4095;
    })));
  }
  return decoded.get(layer);
};
const mean = maps => {
  if (maps.length === 1) return maps[0];
  const sum = new Float32Array(maps[0].length);
  for (const map of maps) for (let i = 0; i < sum.length; i++) sum[i] += map[i] / maps.length;
  return sum;
};

// ------------------------------------------------------------------------------------------------------------- state
// Layers and heads are counted from 1; 0 is the mean over all. A row or column of -1 means none.
let at = 0, kindAt = 0, layerAt = 0, headAt = 0;
let row = -1, column = -1, pinned = null;
let matrix = new Float32Array(), most = 1;
const example = () => examples[at];
const kind = () => example().kinds[kindAt];
const rows = () => example().tokens[kind().rows];
const columns = () => example().tokens[kind().columns];
const weight = (t, s) => matrix[t * columns().length + s];
const chosenMatrix = () => {
  const layers = layerAt ? [kind().layers[layerAt - 1]] : kind().layers;
  return mean(layers.map(layer => (headAt && headAt <= layer.heads ? headsOf(layer)[headAt - 1] : mean(headsOf(layer)))));
};
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colorScale = () => {
  const hex = style("--cell"), back = [1, 3, 5].map(n => parseInt(hex.slice(n, n + 2), 16)), heat = style("--heat").split(" ").map(Number);
  return fraction => back.map((b, n) => Math.round(b + (heat[n] - b) * fraction));
};
const options = (select, labels, chosen) => {
  select.replaceChildren(...labels.map((text, n) => { const node = make("option", text); node.value = n; return node; }));
  select.value = chosen;
};

// --------------------------------------------------------------------------------------------------------- selection
const strips = () => [Array.from($("from").children), Array.from($("to").children)];
const dark = matchMedia("(prefers-color-scheme: dark)");
const shade = (nodes, values) => {
  const top = Math.max(1e-9, ...values), turn = dark.matches ? .62 : .8;
  nodes.forEach((node, n) => {
    node.style.setProperty("--w", (values[n] / top).toFixed(3));
    node.classList.toggle("strong", values[n] / top > turn);
    node.dataset.weight = percent(values[n]);
    node.setAttribute("aria-description", percent(values[n]));
  });
};
const clear = nodes => nodes.forEach(node => {
  node.style.setProperty("--w", 0);
  node.classList.remove("strong");
  delete node.dataset.weight;
  node.removeAttribute("aria-description");
});
// Scroll a long strip, and nothing else, to a token.
const reveal = (box, node) => {
  if (!node) return;
  if (node.offsetTop < box.scrollTop) box.scrollTop = node.offsetTop - 4;
  else if (node.offsetTop + node.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = node.offsetTop + node.offsetHeight - box.clientHeight + 4;
};
const strongest = (values, count = 5) => Array.from(values, (w, n) => [w, n]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, count).filter(([w]) => w >= .0005);
const listed = (tokens, values) => strongest(values).flatMap(([w, n], i) => [i ? ", " : " ", token(tokens[n]), " ", make("b", percent(w))]);
const pick = (t, s, { pin = false } = {}) => {
  if (!example().kinds.length) return;
  [row, column] = [t, s];
  if (pin) pinned = t < 0 && s < 0 ? null : [t, s];
  const [from, to] = strips(), across = columns().length;
  clear(from);
  clear(to);
  from.forEach((node, n) => node.setAttribute("aria-selected", n === t));
  to.forEach((node, n) => node.setAttribute("aria-selected", n === s));
  const readout = $("readout");
  readout.className = t < 0 && s < 0 ? "idle" : "";
  if (t >= 0) {
    const values = matrix.subarray(t * across, (t + 1) * across);
    shade(to, values);
    reveal($("to"), to[s >= 0 ? s : strongest(values)[0]?.[1]]);
    if (s >= 0) reveal($("from"), from[t]);
    const start = [kind().action + " ", token(rows()[t]), ` (${t + 1}), the model attends to`];
    if (s >= 0) readout.replaceChildren(...start, " ", token(columns()[s]), ` (${s + 1}) with `, make("b", percent(values[s])), " of its attention weight.");
    else readout.replaceChildren(...start, ...(strongest(values).length ? listed(columns(), values) : [" no token"]), ".");
  } else if (s >= 0) {
    const values = Float32Array.from(rows(), (_, n) => weight(n, s));
    shade(from, values);
    reveal($("from"), from[strongest(values)[0]?.[1]]);
    readout.replaceChildren(token(columns()[s]), ` (${s + 1}) receives attention from`, ...(strongest(values).length ? listed(rows(), values) : [" no token"]), ".");
  } else readout.textContent = "Move over a token or over the map to see its attention weights.";
  const isOutput = kind().rows === example().target;
  Array.from($("steps").children).forEach((node, n) => node.classList.toggle("active", isOutput && n === t));
  drawMap();
};
const restore = () => pick(...(pinned ?? [-1, -1]));

// ---------------------------------------------------------------------------------------------------------- the map
let geometry = null, drawing = { key: "" };
// The cells alone, cached until they change: moving over a large map must not paint all of them again.
const cells = (T, S, cell, gap, scale) => {
  const key = [at, kindAt, layerAt, headAt, cell, scale, dark.matches].join();
  if (drawing.key === key) return drawing.canvas;
  const canvas = make("canvas"), context = canvas.getContext("2d"), color = colorScale();
  [canvas.width, canvas.height] = [Math.max(1, Math.round(S * cell * scale)), Math.max(1, Math.round(T * cell * scale))];
  context.scale(canvas.width / (S * cell || 1), canvas.height / (T * cell || 1));
  const fills = Array.from({ length: 101 }, (_, n) => `rgb(${color(n / 100).join(" ")})`);
  for (let t = 0; t < T; t++) for (let s = 0; s < S; s++) {
    context.fillStyle = fills[Math.round(100 * weight(t, s) / most)];
    context.fillRect(s * cell, t * cell, cell - gap, cell - gap);
  }
  drawing = { key, canvas };
  return canvas;
};
const drawMap = () => {
  const canvas = $("map"), T = rows().length, S = columns().length, context = canvas.getContext("2d");
  const font = size => `${size}px ${style("--mono")}`;
  context.font = font(12);
  const widest = tokens => Math.min(110, Math.max(14, ...tokens.map(t => context.measureText(label(t)).width)));
  const beside = widest(rows()) + 12, upright = columns().every(t => Array.from(label(t)).length <= 3), room = $("map-scroll").clientWidth - 6 - beside;
  const least = T > 256 || S > 128 ? 5 : 10, cell = Math.max(least, Math.min(30, Math.floor(room / Math.max(S, 1)), Math.max(16, Math.floor(760 / Math.max(T, 1)))));
  const named = cell >= 9, left = named ? beside : 4, top = named ? (upright && cell >= 14 ? 18 : widest(columns())) + 10 : 4;
  const width = left + S * cell + 2, height = top + T * cell + 2, scale = Math.min(window.devicePixelRatio || 1, 8000 / Math.max(width, height));
  geometry = { left, top, cell };
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  const gap = cell > 12 ? 2 : cell > 7 ? 1 : 0;
  context.drawImage(cells(T, S, cell, gap, scale), left, top, S * cell, T * cell);
  const ink = style("--text"), soft = style("--soft"), accent = style("--accent");
  context.font = font(Math.min(12, cell + 1));
  context.textBaseline = "middle";
  const write = (text, on) => {
    context.fillStyle = on ? accent : special(text) ? soft : ink;
    context.fillText(label(text), 0, 0, 112);
  };
  if (named) {
    rows().forEach((text, t) => {
      context.save();
      context.translate(left - 6, top + t * cell + (cell - gap) / 2);
      context.textAlign = "right";
      write(text, t === row);
      context.restore();
    });
    columns().forEach((text, s) => {
      context.save();
      context.translate(left + s * cell + (cell - gap) / 2, top - 6);
      context.textAlign = upright && cell >= 14 ? "center" : "left";
      if (upright && cell >= 14) context.translate(0, -6);
      else context.rotate(-Math.PI / 2);
      write(text, s === column);
      context.restore();
    });
  }
  context.strokeStyle = accent;
  context.lineWidth = 1.5;
  if (row >= 0) context.strokeRect(left - 1, top + row * cell - 1, S * cell - gap + 2, cell - gap + 2);
  if (column >= 0) context.strokeRect(left + column * cell - 1, top - 1, cell - gap + 2, T * cell - gap + 2);
};
const under = event => {
  const box = $("map").getBoundingClientRect();
  const s = Math.floor((event.clientX - box.left - geometry.left) / geometry.cell), t = Math.floor((event.clientY - box.top - geometry.top) / geometry.cell);
  const inside = (n, size) => (n >= 0 && n < size ? n : -1);
  return [inside(t, rows().length), inside(s, columns().length)];
};

// ---------------------------------------------------------------------------------------------------------- overview
const THUMB = 64;
const thumb = (map, T, S, color) => {
  const canvas = make("canvas"), wide = Math.max(1, Math.min(S, THUMB)), high = Math.max(1, Math.min(T, THUMB)), shown = new Float32Array(wide * high);
  [canvas.width, canvas.height] = [wide, high];
  // Each pixel shows its largest weight, so that a thin diagonal stays visible.
  for (let t = 0; t < T; t++) for (let s = 0; s < S; s++) {
    const pixel = Math.floor(t * high / T) * wide + Math.floor(s * wide / S);
    shown[pixel] = Math.max(shown[pixel], map[t * S + s]);
  }
  const context = canvas.getContext("2d"), image = context.createImageData(wide, high), top = Math.max(1e-9, shown.reduce((a, b) => Math.max(a, b), 0));
  shown.forEach((w, n) => image.data.set([...color(w / top), 255], 4 * n));
  context.putImageData(image, 0, 0);
  return canvas;
};
const drawOverview = () => {
  const layers = kind().layers, across = Math.max(...layers.map(l => l.heads)), count = layers.reduce((n, l) => n + l.heads, 0);
  $("overview-box").hidden = count < 2;
  const box = $("overview"), color = colorScale(), T = rows().length, S = columns().length;
  if (count < 2) return box.replaceChildren();
  box.style.gridTemplateColumns = `auto repeat(${across}, max-content)`;
  const fits = Math.floor(($("attention").clientWidth - 60) / across) - 5;
  box.style.setProperty("--size", Math.max(18, Math.min(count > 64 ? 34 : count > 16 ? 48 : 72, fits)) + "px");
  const nodes = [make("span", ""), ...Array.from({ length: across }, (_, h) => make("span", h + 1))];
  layers.forEach((layer, l) => {
    nodes.push(make("span", l + 1));
    for (let h = 0; h < across; h++) {
      if (h >= layer.heads) { nodes.push(make("span", "")); continue; }
      const button = make("button");
      button.type = "button";
      button.append(thumb(headsOf(layer)[h], T, S, color));
      button.setAttribute("aria-label", `Layer ${l + 1}, head ${h + 1}`);
      button.title = `Layer ${l + 1}, head ${h + 1}`;
      button.dataset.layer = l + 1;
      button.dataset.head = h + 1;
      nodes.push(button);
    }
  });
  box.replaceChildren(...nodes);
};
const markOverview = () => {
  const buttons = Array.from($("overview").querySelectorAll("button"));
  for (const node of buttons) {
    const own = [Number(node.dataset.layer), Number(node.dataset.head)];
    node.setAttribute("aria-pressed", (layerAt === own[0] || !layerAt && kind().layers.length === 1) && (headAt === own[1] || !headAt && kind().layers[own[0] - 1].heads === 1));
    node.tabIndex = -1;
  }
  const entry = buttons.find(node => node.getAttribute("aria-pressed") === "true") ?? buttons[0];
  if (entry) entry.tabIndex = 0;
};

// ----------------------------------------------------------------------------------------------------------- drawing
const strip = (node, tokens, choose) => {
  node.replaceChildren(...tokens.map((text, n) => {
    const one = token(text);
    one.setAttribute("role", "option");
    one.setAttribute("aria-selected", false);
    one.tabIndex = n ? -1 : 0;
    one.addEventListener("pointerenter", () => choose(n));
    one.addEventListener("pointerleave", restore);
    one.addEventListener("click", () => choose(n, { pin: true }));
    one.addEventListener("focus", () => { if (one.matches(":focus-visible")) choose(n, { pin: true }); });
    return one;
  }));
};
const drawAttention = () => {
  $("attention").hidden = $("hint-map").hidden = !example().kinds.length;
  if (!example().kinds.length) return;
  const layers = kind().layers, across = Math.max(...layers.map(l => l.heads));
  layerAt = layers.length > 1 ? Math.min(layerAt, layers.length) : 0;
  headAt = across > 1 ? Math.min(headAt, across) : 0;
  $("kinds").replaceChildren(...example().kinds.map((k, n) => {
    const button = make("button");
    button.append(isolated(k.name));
    button.type = "button";
    button.setAttribute("aria-pressed", n === kindAt);
    button.addEventListener("click", () => { kindAt = n; layerAt = headAt = 0; pinned = null; drawAttention(); $("kinds").children[n].focus(); });
    return button;
  }));
  options($("layer"), ["mean of all", ...layers.map((l, n) => `${n + 1} · ${flat(l.name, 60)}`)], layerAt);
  options($("head"), ["mean of all", ...Array.from({ length: across }, (_, n) => n + 1)], headAt);
  $("layer-pick").hidden = layers.length < 2;
  $("head-pick").hidden = across < 2;
  $("from-title").textContent = `${kind().action} … (${rows().length} tokens)`;
  $("to-title").textContent = `… the model attends to (${columns().length} tokens)`;
  strip($("from"), rows(), (n, how) => pick(n, -1, how));
  strip($("to"), columns(), (n, how) => pick(-1, n, how));
  drawOverview();
  drawMatrix();
};
const drawMatrix = () => {
  matrix = chosenMatrix();
  most = Math.max(1e-9, matrix.reduce((a, b) => Math.max(a, b), 0));
  $("layer").value = layerAt;
  $("head").value = headAt;
  const layers = kind().layers, across = Math.max(...layers.map(l => l.heads));
  const name = [layers.length < 2 ? "" : layerAt ? `layer ${layerAt}` : "mean of all layers", across < 2 ? "" : headAt ? `head ${headAt}` : "mean of all heads"];
  $("map-title").textContent = [kind().name, ...name].filter(part => part).join(", ");
  $("map").setAttribute("aria-label", `${$("map-title").textContent}: ${rows().length} x ${columns().length} weights; arrow keys move`);
  $("most").textContent = percent(most);
  markOverview();
  restore();
};
const bar = (node, name, probability) => {
  node.style.setProperty("--w", probability);
  node.append(name, make("span", percent(probability), "number"));
  return node;
};
const drawSteps = () => {
  $("step-card").hidden = !example().steps.length;
  $("steps").replaceChildren(...example().steps.map(([text, probability, rank, candidates, forced], t) => {
    const li = make("li", undefined, forced ? "forced" : ""), top = make("div", undefined, "top");
    top.append(make("span", t + 1), make("span", forced ? "prompt" : rank > candidates.length ? `chosen: rank ${rank}` : ""));
    li.append(top);
    const all = rank > candidates.length ? [...candidates, [text, probability]] : candidates, own = Math.min(rank, all.length) - 1;
    all.forEach(([name, p], n) => {
      const line = bar(make("div", undefined, n === own ? "row chosen" : "row"), token(name), p);
      if (n === own) line.lastChild.textContent += " ✓";
      li.append(line);
    });
    li.addEventListener("pointerenter", () => { if (example().kinds.length && kind().rows === example().target) pick(t, -1); });
    li.addEventListener("pointerleave", () => restore());
    return li;
  }));
};
const show = number => {
  at = Math.min(Math.max(number, 0), examples.length - 1);
  const e = example(), result = output(e);
  kindAt = Math.max(0, Math.min(kindAt, e.kinds.length - 1));
  pinned = null;
  $("example").value = at;
  $("count").textContent = `${at + 1} of ${examples.length}`;
  $("previous").disabled = at === 0;
  $("next").disabled = at === examples.length - 1;
  $("input").replaceChildren(...(input(e) ? prose(input(e)) : [make("span", "∅ (no text)", "mark")]));
  $("output").replaceChildren(...(result ? prose(result) : [make("span", "∅ (no text)", "mark")]));
  $("output-name").textContent = e.classes.length && !e.steps.length ? "Class" : "Output";
  $("output-name").hidden = $("output-line").hidden = !result && !e.steps.length && !e.tokens[e.target].length;
  $("badge").hidden = e.correct === null;
  $("badge").className = e.correct ? "badge correct" : "badge incorrect";
  $("badge").textContent = e.correct ? "✓ correct" : "✗ incorrect";
  $("reference-name").hidden = $("reference-line").hidden = e.reference === null;
  $("reference").replaceChildren(...prose(e.reference ?? ""));
  $("tokens-name").hidden = $("tokens-line").hidden = e.kinds.length > 0;
  $("tokens").replaceChildren(...e.tokens[e.source].map(token));
  $("notes").replaceChildren(...[...e.notes, ...(e.kinds.length ? [] : ["This model has no attention."])].map(text => {
    const node = make("p", undefined, "note");
    node.append(...prose(text));
    return node;
  }));
  $("class-card").hidden = !e.classes.length;
  $("classes").replaceChildren(...e.classes.map(([name, p]) => bar(make("li"), isolated(name), p)));
  $("others").hidden = !e.candidates.length;
  $("candidates").replaceChildren(...e.candidates.map(([text, score]) => {
    const li = make("li");
    li.append(isolated(text), make("span", "score " + score.toFixed(2), "score"));
    return li;
  }));
  drawSteps();
  drawAttention();
  history.replaceState(null, "", "#" + (at + 1));
};

// ------------------------------------------------------------------------------------------------------------ events
$("title").textContent = title;
const verdict = e => (e.correct === null ? "" : e.correct ? " ✓" : " ✗");
options($("example"), examples.map((e, n) => `${n + 1}.  ${flat(input(e), 80)}  →  ${flat(output(e), 80)}${verdict(e)}`), 0);
$("hint").hidden = $("chooser").hidden = examples.length < 2;
$("previous").addEventListener("click", () => show(at - 1));
$("next").addEventListener("click", () => show(at + 1));
$("example").addEventListener("change", event => show(Number(event.target.value)));
$("layer").addEventListener("change", event => { layerAt = Number(event.target.value); drawMatrix(); });
$("head").addEventListener("change", event => { headAt = Number(event.target.value); drawMatrix(); });
$("overview").addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  const own = [Number(button.dataset.layer), Number(button.dataset.head)];
  // A second click shows the mean again.
  const again = button.getAttribute("aria-pressed") === "true";
  layerAt = again || kind().layers.length < 2 ? 0 : own[0];
  headAt = again || Math.max(...kind().layers.map(l => l.heads)) < 2 ? 0 : own[1];
  drawMatrix();
});
$("map").addEventListener("pointermove", event => { const [t, s] = under(event); if (t !== row || s !== column) pick(t, s); });
$("map").addEventListener("pointerleave", restore);
$("map").addEventListener("click", event => pick(...under(event), { pin: true }));
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const within = (n, size) => Math.min(Math.max(n, 0), size - 1);
document.addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const move = MOVES[event.key], focused = event.target;
  if (event.key === "Escape") { pinned = null; if (example().kinds.length) restore(); return; }
  if (focused.closest("select")) return;
  const list = focused.closest('[role="listbox"]');
  if (list) {
    const nodes = Array.from(list.children), now = nodes.indexOf(focused.closest('[role="option"]'));
    const to = event.key === "Home" ? 0 : event.key === "End" ? nodes.length - 1 : move ? within(now + move[0] + move[1], nodes.length) : -1;
    if (to < 0) return;
    event.preventDefault();
    nodes[now].tabIndex = -1;
    nodes[to].tabIndex = 0;
    nodes[to].focus({ focusVisible: true });
    (list.id === "from" ? pick(to, -1, { pin: true }) : pick(-1, to, { pin: true }));
  } else if (focused.id === "map" && move) {
    event.preventDefault();
    pick(within(Math.max(row, 0) + (row < 0 ? 0 : move[0]), rows().length), within(Math.max(column, 0) + (column < 0 ? 0 : move[1]), columns().length), { pin: true });
  } else if (focused.closest("#overview") && move) {
    event.preventDefault();
    const own = focused.closest("button"), to = [Number(own.dataset.layer) + move[0], Number(own.dataset.head) + move[1]];
    $("overview").querySelector(`button[data-layer="${to[0]}"][data-head="${to[1]}"]`)?.focus();
  } else if (!focused.closest(".scroll, .steps, .segments")) {
    if (event.key === "ArrowLeft") show(at - 1);
    if (event.key === "ArrowRight") show(at + 1);
  }
});
let waiting = 0;
const redraw = () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => { if (example().kinds.length) { drawOverview(); markOverview(); pick(row, column); } });
};
window.addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
// page.html#3 opens the third example.
const showFromHash = () => show((parseInt(location.hash.slice(1), 10) || 1) - 1);
window.addEventListener("hashchange", showFromHash);
showFromHash();
