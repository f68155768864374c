// Tables: sorted by a click on a header, filtered by text, and limited to the first rows until the user shows all.
const SHORT = 12;

function sortTable(table, index) {
  const heads = [...table.tHead.rows[0].cells];
  const head = heads[index];
  const numeric = head.classList.contains("number");
  const now = head.getAttribute("aria-sort");
  const order = now === "descending" || (now === null && !numeric) ? "ascending" : "descending";
  for (const each of heads) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[index].dataset.value, row]);
  const compare = numeric ? (a, b) => Number(a) - Number(b) : new Intl.Collator("en", { numeric: true }).compare;
  // Cells without a value come last in either order.
  keyed.sort(([a], [b]) => (a === undefined || b === undefined ? (a === undefined) - (b === undefined) : sign * compare(a, b)));
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

function prepareSorting(table) {
  [...table.tHead.rows[0].cells].forEach((head, index) => {
    head.querySelector("button").addEventListener("click", () => sortTable(table, index));
  });
}

function prepareLength(figure) {
  const table = figure.querySelector("table");
  const rows = table ? table.tBodies[0].rows.length : 0;
  if (rows <= SHORT + 3) return;
  table.classList.add("short");
  const tools = figure.querySelector(".table-tools");
  const filter = element(tools, "input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${figure.dataset.title}` });
  const more = element(figure, "button", { type: "button", class: "more" }, `Show all ${formatCount(rows)} rows`);
  const limit = () => {
    const whole = filter.value !== "" || more.dataset.open === "yes";
    table.classList.toggle("short", !whole);
  };
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
    limit();
  });
  more.addEventListener("click", () => {
    more.dataset.open = more.dataset.open === "yes" ? "" : "yes";
    more.textContent = more.dataset.open ? `Show the first ${SHORT} rows` : `Show all ${formatCount(rows)} rows`;
    limit();
  });
}
