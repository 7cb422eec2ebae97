// The pages' only script. Without it pages still tell everything; with it they stay up to date.
"use strict";

const part = (url, options = {}) =>
  fetch(url, { ...options, headers: { "X-Part": "1", ...(options.headers || {}) } });

// A token behind # never leaves the browser: `fedforest demo --open` hands it over this way.
function enterByFragment() {
  const form = document.getElementById("login");
  const word = location.hash.slice(1);
  if (!form || !word.startsWith("fft_")) return;
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = word;
  form.submit();
}

// Replace a part without moving the reader: open details and the focus stay.
function replacePart(target, html) {
  const open = [...target.querySelectorAll("details[open]")].map((each) => each.dataset.key || "");
  const focus = document.activeElement && target.contains(document.activeElement)
    ? document.activeElement.id : "";
  const scrolls = [...target.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  target.replaceChildren(fresh.content);
  target.querySelectorAll("details").forEach((each) => {
    if (each.dataset.key && open.includes(each.dataset.key)) each.open = true;
  });
  target.querySelectorAll(".scroll").forEach((each, n) => { each.scrollLeft = scrolls[n] || 0; });
  if (focus) document.getElementById(focus)?.focus();
}

function sayState(text) {
  let line = document.getElementById("connection");
  if (!line) {
    line = document.createElement("p");
    line.id = "connection";
    line.setAttribute("role", "status");
    document.querySelector("main header")?.after(line);
  }
  line.textContent = text;
  line.hidden = !text;
}

// Parts that are asked for again every few seconds while the page is looked at.
function refreshParts() {
  document.querySelectorAll("[data-refresh]").forEach((target) => {
    const seconds = Number(target.dataset.every) || 5;
    const look = async () => {
      if (!document.hidden && !target.contains(document.activeElement?.closest("form"))) {
        try {
          const answer = await part(target.dataset.refresh + location.search);
          if (answer.status === 401) return location.assign("/login");
          if (answer.headers.get("x-reload")) return location.reload();
          if (answer.ok) replacePart(target, await answer.text());
          sayState("");
        } catch {
          sayState("The server does not answer; trying again.");
        }
      }
      setTimeout(look, seconds * 1000);
    };
    setTimeout(look, seconds * 1000);
  });
}

// A run that is under way: the server sends its part whenever there is news.
function followRun() {
  const target = document.querySelector("[data-live]");
  if (!target) return;
  const source = new EventSource(target.dataset.live);
  source.addEventListener("part", (event) => replacePart(target, JSON.parse(event.data)));
  source.addEventListener("over", () => { source.close(); location.reload(); });
  source.addEventListener("error", () => sayState("The line broke; trying again."));
  source.addEventListener("open", () => sayState(""));
  addEventListener("pagehide", () => source.close());
}

// Parts that take long to make: asked for when they come into sight.
function loadParts(root = document) {
  const load = async (target) => {
    const answer = await part(target.dataset.load).catch(() => null);
    if (answer && answer.status === 401) return location.assign("/login");
    if (answer && (answer.ok || answer.status >= 400)) replacePart(target, await answer.text());
  };
  const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    seen.unobserve(entry.target);
    load(entry.target);
  }), { rootMargin: "600px" });
  root.querySelectorAll("[data-load]").forEach((target) => seen.observe(target));
}

function confirmActions() {
  document.addEventListener("submit", (event) => {
    const text = event.target.dataset?.confirm;
    if (text && !confirm(text)) event.preventDefault();
  });
}

// A form that is checked while it is written.
function checkForms() {
  document.querySelectorAll("form[data-check]").forEach((form) => {
    const target = document.getElementById(form.dataset.target);
    let timer = 0, asked = 0;
    const check = async () => {
      const number = ++asked;
      const body = new URLSearchParams(new FormData(form));
      try {
        const answer = await part(form.dataset.check, { method: "POST", body });
        if (answer.status === 401) return location.assign("/login");
        if (number === asked) replacePart(target, await answer.text());
        sayState("");
      } catch {
        sayState("The server does not answer; trying again.");
      }
    };
    const later = () => { clearTimeout(timer); timer = setTimeout(check, 350); };
    const show = () => form.querySelectorAll("[data-when]").forEach((each) => {
      const [name, values] = each.dataset.when.split("=");
      const now = new FormData(form).get(name) || "";
      each.hidden = !values.split("|").includes(now);
    });
    form.addEventListener("input", () => { show(); later(); });
    form.addEventListener("change", () => { show(); later(); });
    show();
    check();
  });
}

// A tree: boxes and lines as SVG. Every leaf that is shown takes a place of its own from left to
// right, every split stands above the middle of what is below it.
const BOX = { w: 148, h: 42, gap: 16, level: 84 };
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

class TreeView {
  constructor(holder, tree) {
    Object.assign(this, { holder, tree, path: new Set(tree.path), open: new Set(), view: null });
    const first = tree.path.length ? tree.path : [];
    const todo = [[0, 0]];
    while (todo.length) {
      const [node, level] = todo.pop();
      if (this.isLeaf(node)) continue;
      if (level < 3) this.open.add(node);
      if (level < 3) this.below(node).forEach((child) => todo.push([child, level + 1]));
    }
    first.forEach((node) => { if (!this.isLeaf(node)) this.open.add(node); });
    this.canvas = holder.querySelector(".canvas");
    this.svg = make("svg", { role: "tree", "aria-label": "tree of splits" });
    this.canvas.replaceChildren(this.svg);
    this.focus = 0;
    this.draw();
    this.fit();
    this.listen();
  }

  isLeaf(node) { return this.tree.children[node] < 0; }
  below(node) { return [this.tree.children[node], this.tree.children[node] + 1]; }

  place() {
    const at = new Map();
    let next = 0, deepest = 0;
    const todo = [[0, 0, false]];
    while (todo.length) {
      const [node, level, isDone] = todo.pop();
      if (this.isLeaf(node) || !this.open.has(node)) {
        at.set(node, { x: (next + 0.5) * (BOX.w + BOX.gap), level });
        next += 1;
        deepest = Math.max(deepest, level);
      } else if (isDone) {
        const [left, right] = this.below(node);
        at.set(node, { x: (at.get(left).x + at.get(right).x) / 2, level });
      } else {
        const [left, right] = this.below(node);
        todo.push([node, level, true], [right, level + 1, false], [left, level + 1, false]);
      }
    }
    this.size = { w: next * (BOX.w + BOX.gap), h: (deepest + 1) * BOX.level };
    return at;
  }

  draw() {
    const at = this.place();
    const lines = [], boxes = [];
    for (const [node, { x, level }] of at) {
      const y = level * BOX.level + 4;
      const isOpen = this.open.has(node) && !this.isLeaf(node);
      if (isOpen) {
        this.below(node).forEach((child, side) => {
          const to = at.get(child);
          const on = this.path.has(node) && this.path.has(child) ? " on" : "";
          const middle = (x + to.x) / 2, foot = y + BOX.h, head = y + BOX.level;
          lines.push(make("path", {
            class: `branch${on}`,
            d: `M${x} ${foot}C${x} ${foot + 24} ${to.x} ${head - 24} ${to.x} ${head}`,
          }));
          const word = side ? "no" : "yes";
          const anchor = side ? "start" : "end";
          lines.push(make("text", {
            x: middle + (side ? 5 : -5), y: foot + 19, class: "small", "text-anchor": anchor,
          }, word));
        });
      }
      boxes.push(this.box(node, x, y, level, isOpen));
    }
    this.svg.replaceChildren(...lines, ...boxes);
  }

  box(node, x, y, level, isOpen) {
    const { titles, details, owners } = this.tree;
    const isLeaf = this.isLeaf(node);
    const on = this.path.has(node) ? " on" : "";
    const group = make("g", {
      role: "treeitem", tabindex: node === this.focus ? 0 : -1, "aria-level": level + 1,
      "data-node": node, class: isLeaf ? "leafbox" : "splitbox", id: `node-${node}`,
      "aria-label": [titles[node], details[node]].filter(Boolean).join(", "),
    });
    if (!isLeaf) group.setAttribute("aria-expanded", String(isOpen));
    group.append(make("rect", {
      x: x - BOX.w / 2, y, width: BOX.w, height: BOX.h, rx: 7,
      class: (isLeaf ? "leaf" : `split o${owners[node]}`) + on,
    }));
    const single = !details[node];
    group.append(make("text", {
      x, y: y + (single ? 26 : 18), class: "node", "text-anchor": "middle",
    }, titles[node]));
    if (!single) {
      group.append(make("text", {
        x, y: y + 33, class: "small", "text-anchor": "middle",
      }, details[node]));
    }
    if (!isLeaf && !isOpen) {
      group.append(make("text", {
        x, y: y + BOX.h + 15, class: "small", "text-anchor": "middle",
      }, "⋯"));
    }
    return group;
  }

  fit() {
    const room = this.canvas.getBoundingClientRect();
    const least = room.width / 1100;
    const scale = Math.max(Math.min(room.width / this.size.w, room.height / this.size.h, 1), Math.min(least, 0.55));
    const root = Number(this.place().get(0).x);
    const w = room.width / scale, h = room.height / scale;
    const x = w >= this.size.w ? (this.size.w - w) / 2 : root - w / 2;
    this.view = { x, y: -6, w, h };
    this.look();
  }

  look() {
    const { x, y, w, h } = this.view;
    this.svg.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
  }

  zoom(factor, middle = null) {
    const { x, y, w, h } = this.view;
    const point = middle || { x: x + w / 2, y: y + h / 2 };
    const wide = Math.min(Math.max(w * factor, 200), this.size.w * 4 + 2000);
    const by = wide / w;
    this.view = {
      x: point.x - (point.x - x) * by, y: point.y - (point.y - y) * by, w: wide, h: h * by,
    };
    this.look();
  }

  toggle(node) {
    if (this.isLeaf(node)) return;
    const before = this.place().get(node);
    if (this.open.has(node)) this.open.delete(node);
    else this.open.add(node);
    this.draw();
    const after = this.place().get(node);
    this.view.x += after.x - before.x;
    this.look();
    this.go(node);
  }

  go(node) {
    this.focus = node;
    this.svg.querySelectorAll("[role=treeitem]").forEach((each) => {
      each.setAttribute("tabindex", each.dataset.node === String(node) ? "0" : "-1");
    });
    this.svg.querySelector(`#node-${node}`)?.focus({ preventScroll: true });
  }

  parent(node) {
    return this.tree.children.findIndex((child) => child >= 0 && (child === node || child + 1 === node));
  }

  press(event) {
    const node = Number(event.target.closest("[data-node]")?.dataset.node ?? this.focus);
    const shown = this.open.has(node) && !this.isLeaf(node);
    const steps = {
      ArrowDown: () => shown && this.go(this.below(node)[0]),
      ArrowUp: () => node && this.go(this.parent(node)),
      ArrowRight: () => {
        const above = node ? this.parent(node) : -1;
        if (above >= 0 && this.below(above)[0] === node) this.go(node + 1);
      },
      ArrowLeft: () => {
        const above = node ? this.parent(node) : -1;
        if (above >= 0 && this.below(above)[1] === node) this.go(node - 1);
      },
      Enter: () => this.toggle(node),
      " ": () => this.toggle(node),
      "+": () => this.zoom(0.8),
      "-": () => this.zoom(1.25),
      Home: () => this.go(0),
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    steps[event.key]();
    this.follow();
  }

  follow() {
    const at = this.place().get(this.focus);
    if (!at) return;
    const { x, y, w, h } = this.view, top = at.level * BOX.level;
    if (at.x < x + 80 || at.x > x + w - 80) this.view.x = at.x - w / 2;
    if (top < y || top > y + h - BOX.level) this.view.y = top - h / 3;
    this.look();
  }

  listen() {
    let from = null, moved = 0;
    const scale = () => this.view.w / this.canvas.getBoundingClientRect().width;
    this.canvas.addEventListener("pointerdown", (event) => {
      from = { x: event.clientX, y: event.clientY, view: { ...this.view } };
      moved = 0;
    });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      moved = Math.max(moved, Math.abs(dx) + Math.abs(dy));
      this.view = { ...this.view, x: from.view.x - dx * scale(), y: from.view.y - dy * scale() };
      this.look();
    });
    addEventListener("pointerup", () => { from = null; });
    this.canvas.addEventListener("click", (event) => {
      const node = event.target.closest("[data-node]");
      if (node && moved < 5) this.toggle(Number(node.dataset.node));
    });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const room = this.canvas.getBoundingClientRect();
      const middle = {
        x: this.view.x + (event.clientX - room.x) * scale(),
        y: this.view.y + (event.clientY - room.y) * scale(),
      };
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, middle);
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => this.press(event));
    const all = () => this.tree.children.flatMap((child, node) => (child < 0 ? [] : [node]));
    const tools = {
      in: () => this.zoom(0.75),
      out: () => this.zoom(1.33),
      fit: () => this.fit(),
      open: () => { this.open = new Set(all().slice(0, 2000)); this.draw(); this.fit(); },
      close: () => { this.open = new Set([0]); this.draw(); this.fit(); },
    };
    this.holder.querySelectorAll("[data-tool]").forEach((button) => {
      button.addEventListener("click", tools[button.dataset.tool]);
    });
  }
}

function drawTrees() {
  document.querySelectorAll("[data-tree]").forEach(async (holder) => {
    const canvas = holder.querySelector(".canvas");
    try {
      const answer = await part(holder.dataset.tree);
      if (answer.status === 401) return location.assign("/login");
      if (!answer.ok) { replacePart(canvas, await answer.text()); return undefined; }
      holder.view = new TreeView(holder, await answer.json());
    } catch (trouble) {
      canvas.textContent = "The tree could not be drawn: the server does not answer.";
      throw trouble;
    }
    return undefined;
  });
}

enterByFragment();
addEventListener("hashchange", enterByFragment);
refreshParts();
followRun();
loadParts();
confirmActions();
checkForms();
drawTrees();
