"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const list = byId("list");
  const cases = list ? [...list.querySelectorAll(":scope > .case")] : [];
  const worst = [...cases];
  const words = new Map();

  // The body of a case stays text until the case is opened. It is markup of this page, in which all data is escaped: the
  // same that a browser without JavaScript reads.
  const closedBody = (one) => one.querySelector(":scope > .body > noscript");
  const textOf = (one) => {
    if (!words.has(one)) {
      const body = closedBody(one);
      const signs = { "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'", "&amp;": "&" };
      const text = body ? body.textContent.replace(/<[^>]*>/g, " ").replace(/&(lt|gt|#34|#39|amp);/g, (sign) => signs[sign]) : "";
      words.set(one, `${one.querySelector("summary").textContent} ${text}`.toLowerCase());
    }
    return words.get(one);
  };
  const fill = (one) => {
    const body = closedBody(one);
    if (!body) return;
    textOf(one);
    body.parentElement.innerHTML = body.textContent;
  };

  // The address keeps what a reader opened and filtered, by names, such that it can be shared: `#case-a&search=paris`.
  const partsOfAddress = () => location.hash.slice(1).split("&").filter(Boolean);
  const anchorOfAddress = () => partsOfAddress().find((part) => !part.includes("=")) || "";
  const remember = (anchor) => {
    const parts = [anchor, ...stateOfControls()].filter(Boolean).join("&");
    const address = location.href.split("#")[0] + (parts && `#${parts}`);
    if (address !== location.href) history.replaceState(null, "", address);
  };

  // The target of a link may be inside closed parts of the page, or in a case that a filter hides.
  const reveal = () => {
    const name = anchorOfAddress();
    const home = byId(name.split(":")[0]);
    if (home && home.matches(".case")) fill(home);
    const target = name && byId(name);
    if (!target) return;
    const hidden = target.closest(".case");
    if (hidden && hidden.hidden) reset();
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    target.scrollIntoView({ block: "start" });
  };
  const follow = () => {
    if (cases.length && partsOfAddress().some((part) => part.includes("="))) applyAddress();
    reveal();
    remember(anchorOfAddress());
  };

  const split = (text) => (text || "").trim().split(" ");
  const value = (id) => (byId(id) ? byId(id).value : "");
  const checks = [...document.querySelectorAll("#controls input[name=outcome]")];

  // Menus are in the address by the name of their option, outcomes as a list of those that are checked.
  const menus = ["metric", "tag", "place", "sort"];
  const nameOf = (option) => (option && option.dataset.name) || "";
  const stateOfControls = () => {
    const state = [];
    const add = (name, text) => { if (text) state.push(`${name}=${encodeURIComponent(text)}`); };
    if (checks.some((box) => !box.checked)) {
      state.push(`outcome=${checks.filter((box) => box.checked).map((box) => box.value).join(",")}`);
    }
    for (const id of menus) if (byId(id)) add(id, nameOf(byId(id).selectedOptions[0]));
    add("search", value("search"));
    return state;
  };
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const applyAddress = () => {
    const state = new Map(partsOfAddress().filter((part) => part.includes("=")).map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), decoded(part.slice(at + 1))];
    }));
    const outcomes = state.has("outcome") ? state.get("outcome").split(",") : null;
    for (const box of checks) box.checked = !outcomes || outcomes.includes(box.value);
    for (const id of menus) {
      const menu = byId(id);
      if (menu) menu.selectedIndex = Math.max([...menu.options].findIndex((one) => nameOf(one) === (state.get(id) || "")), 0);
    }
    byId("search").value = state.get("search") || "";
    sort();
    filter();
  };

  const filter = () => {
    const picked = new Set(checks.filter((box) => box.checked).map((box) => box.value));
    const metric = value("metric");
    const tag = value("tag");
    const place = value("place");
    const terms = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    const amounts = {};
    let matches = 0;
    for (const one of cases) {
      const outcome = metric === "" ? one.dataset.v : split(one.dataset.m)[Number(metric)];
      const fits = outcome !== "apart"
        && (tag === "" || split(one.dataset.t).includes(tag))
        && (place === "" || split(one.dataset.p).includes(place))
        && terms.every((word) => textOf(one).includes(word));
      if (fits) amounts[outcome] = (amounts[outcome] || 0) + 1;
      one.hidden = !fits || !picked.has(outcome);
      if (!one.hidden) matches += 1;
    }
    for (const box of checks) box.parentElement.querySelector(".amount").textContent = (amounts[box.value] || 0).toLocaleString("en");
    byId("matches").textContent = `${matches.toLocaleString("en")} of ${cases.length.toLocaleString("en")} shown`;
    byId("nothing").hidden = matches > 0;
    nameFold();
  };

  const sort = () => {
    const [kind, place] = value("sort").split(" ");
    const scoreOf = (one) => {
      const text = split(one.dataset.s)[Number(place)];
      return text === "x" ? NaN : Number(text);
    };
    const order = new Map(worst.map((one, index) => [one, index]));
    const index = (one) => Number(one.dataset.i);
    const name = (one) => one.querySelector(".name").textContent;
    const collator = new Intl.Collator("en", { numeric: true });
    const byScore = (sign) => (a, b) => {
      const [left, right] = [scoreOf(a), scoreOf(b)];
      if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right) || index(a) - index(b);
      return sign * (left - right) || index(a) - index(b);
    };
    const orders = {
      worst: (a, b) => order.get(a) - order.get(b),
      index: (a, b) => index(a) - index(b),
      name: (a, b) => collator.compare(name(a), name(b)) || index(a) - index(b),
      low: byScore(1),
      high: byScore(-1),
    };
    cases.sort(orders[kind]);
    list.append(...cases);
  };

  const shown = () => cases.filter((one) => !one.hidden);
  const fold = byId("fold");
  const nameFold = () => { fold.textContent = shown().some((one) => one.open) ? "Close all" : "Open all shown"; };

  const reset = () => {
    for (const box of checks) box.checked = true;
    for (const id of ["metric", "tag", "place", "search"]) if (byId(id)) byId(id).value = "";
    filter();
  };

  const current = () => document.activeElement && document.activeElement.closest(".case");
  const move = (step) => {
    const all = shown();
    if (!all.length) return;
    const here = current();
    const at = here && !here.hidden ? all.indexOf(here) + step : step > 0 ? 0 : all.length - 1;
    const next = all[Math.min(Math.max(at, 0), all.length - 1)].querySelector("summary");
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  const keys = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const search = byId("search");
    const typing = event.target.closest && event.target.closest("input[type=search], select, textarea");
    if (event.key === "Escape" && event.target === search) {
      search.value = "";
      search.blur();
      filter();
      remember(anchorOfAddress());
    } else if (event.key === "Escape" && current()) {
      const here = current();
      here.open = false;
      here.querySelector("summary").focus();
      remember("");
    } else if (typing) {
      return;
    } else if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    }
  };

  if (cases.length) {
    const controls = byId("controls");
    let waiting = 0;
    controls.addEventListener("submit", (event) => event.preventDefault());
    controls.addEventListener("change", (event) => {
      if (event.target.id === "sort") sort(); else filter();
      remember(anchorOfAddress());
    });
    byId("search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { filter(); remember(anchorOfAddress()); }, 80);
    });
    // The links of a tool, an argument or a cell of the matrix show all of its cases.
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-where]");
      if (!link) return;
      event.preventDefault();
      reset();
      byId("place").value = link.dataset.where;
      filter();
      remember("cases");
      byId("cases").scrollIntoView({ block: "start" });
      byId("cases").focus({ preventScroll: true });
    });
    fold.addEventListener("click", () => {
      const open = !shown().some((one) => one.open);
      for (const one of shown()) {
        one.open = open;
        if (open) fill(one);
      }
      nameFold();
    });
    list.addEventListener("click", (event) => {
      const head = event.target.closest(".case > summary");
      if (!head) return;
      fill(head.parentElement);
      remember(head.parentElement.open ? "" : head.parentElement.id);
    });
    list.addEventListener("toggle", (event) => {
      if (event.target.open && event.target.matches(".case")) fill(event.target);
      nameFold();
    }, true);
    byId("reset").addEventListener("click", () => { reset(); remember(""); });
    document.addEventListener("keydown", keys);
    controls.hidden = byId("keys").hidden = false;
    filter();
  }
  addEventListener("hashchange", follow);
  follow();
})();
