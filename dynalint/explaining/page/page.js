// A graph under the pointer or the focus lights up its lines, and a line the graphs that it belongs to.
const rows = document.querySelectorAll("tr[data-g]");
const cards = document.querySelectorAll(".card[data-graph]");
function light(graphs) {
  for (const row of rows) row.classList.toggle("lit", row.dataset.g.split(" ").some((graph) => graphs.includes(graph)));
  for (const card of cards) card.classList.toggle("lit", graphs.includes(card.dataset.graph));
}
for (const one of [...rows, ...cards]) {
  const graphs = one.dataset.graph ? [one.dataset.graph] : one.dataset.g.split(" ");
  for (const event of ["mouseenter", "focusin"]) one.addEventListener(event, () => light(graphs));
  for (const event of ["mouseleave", "focusout"]) one.addEventListener(event, () => light([]));
}
