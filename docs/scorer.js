// Order of what the site's search finds: a place that is called what was looked for comes first. The other figures are Sphinx's own.
var Scorer = {
  score: (result) => {
    const [, title, , , score] = result;
    const wanted = (new URLSearchParams(window.location.search).get("q") || "").trim().toLowerCase();
    const name = title.toLowerCase().split(" > ").pop();
    return name === wanted || name === `toolcrib ${wanted}` ? score + 100 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
