"use strict";
// Comfort only: every page can be read and every filter used without this script.
(() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  // The theme follows the system until the button is used.
  const theme = byId("theme");
  const stored = localStorage.getItem("toolgrade-theme");
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = dark() ? "Switch to light" : "Switch to dark"; };
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("toolgrade-theme", root.dataset.theme);
    nameTheme();
  });
  theme.hidden = false;
  nameTheme();

  const controls = byId("controls");
  const search = byId("search");

  // The address of the filters as they are set, without those that are empty.
  const address = () => {
    const fields = new URLSearchParams([...new FormData(controls)].filter(([name, value]) => value && !(name === "sort" && value === "worst")));
    return fields.size ? `/?${fields}#cases` : "/#cases";
  };

  let asked = 0;
  const show = async (address) => {
    asked += 1;
    const mine = asked;
    const response = await fetch(address);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== asked) return;
    const matching = page.getElementById("matching");
    if (!matching) { location.assign(address); return; }
    byId("matching").replaceWith(matching);
    const amounts = page.querySelectorAll("#controls .amount");
    controls.querySelectorAll(".amount").forEach((one, place) => { one.textContent = amounts[place].textContent; });
  };

  // Typing makes one entry in the history, and every other change one of its own.
  let typed = false;
  const update = (typing) => {
    const target = address();
    if (typing && typed) history.replaceState(null, "", target);
    else history.pushState(null, "", target);
    typed = typing;
    show(target);
  };

  if (controls) {
    let waiting = 0;
    controls.querySelector("button[type=submit]").hidden = true;
    controls.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); update(false); });
    controls.addEventListener("change", (event) => { if (event.target !== search) update(false); });
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => update(true), 120);
    });
    addEventListener("popstate", () => location.reload());
  }

  const move = (step) => {
    const rows = [...document.querySelectorAll(".row")];
    if (!rows.length) {
      const link = document.querySelector(step > 0 ? "a[rel=next]" : "a[rel=prev]");
      if (link) link.click();
      return;
    }
    const here = rows.indexOf(document.activeElement);
    const at = here < 0 ? (step > 0 ? 0 : rows.length - 1) : here + step;
    const next = rows[Math.min(Math.max(at, 0), rows.length - 1)];
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  // The target of a link may be inside closed parts of the page.
  const reveal = () => {
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", reveal);
  if (!controls) reveal();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "/" && search) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "Escape" && byId("up")) {
      byId("up").click();
    }
  });
  if (byId("keys")) byId("keys").hidden = false;
})();
