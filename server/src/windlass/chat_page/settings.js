// The drawer of settings: how answers are drawn. An empty field is not sent, so that the server's own value holds.

const PARAMETERS = ["temperature", "top_p", "max_tokens"];
const settings = one("#settings");

const sampling = () =>
  Object.fromEntries(PARAMETERS.map((name) => [name, one(`#${name}`).valueAsNumber]).filter(([, value]) => !Number.isNaN(value)));

function settingsAreWell() {
  const wrong = PARAMETERS.map((name) => one(`#${name}`)).find((field) => !checkField(field));
  if (!wrong) return true;
  settings.showModal();
  wrong.focus();
  return false;
}

function checkField(field) {
  const hint = one(`#${field.id}-hint`);
  const well = field.checkValidity();
  field.setAttribute("aria-invalid", String(!well));
  hint.dataset.hint ??= hint.textContent;
  hint.textContent = well ? hint.dataset.hint : field.validationMessage;
  return well;
}

function resetSettings() {
  ["system", ...PARAMETERS].forEach((name) => (one(`#${name}`).value = ""));
  PARAMETERS.forEach((name) => checkField(one(`#${name}`)));
  one("#settings-key").placeholder = "none";
  held.key = "";
  refresh();
}
