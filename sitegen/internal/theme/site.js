// Remembers the choice of colours. Pages need no script: without it the choice holds for one page.
(function () {
  "use strict";
  var key = "rooflab-colours", store;
  try { store = window.localStorage; store.getItem(key); } catch (e) { return; }
  var saved = store.getItem(key);
  var chosen = saved && document.getElementById("theme-" + saved);
  if (chosen) { chosen.checked = true; }
  document.querySelectorAll('input[name="theme"]').forEach(function (input) {
    input.addEventListener("change", function () { store.setItem(key, input.id.replace("theme-", "")); });
  });
})();
