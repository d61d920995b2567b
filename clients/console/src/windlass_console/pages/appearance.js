// Runs before the first paint: the theme and the language that were chosen here before. Holds no secret, asks nobody.
(() => {
  const kept = (/** @type {string} */ name) => {
    try {
      return localStorage.getItem(`windlass.${name}`);
    } catch {
      return null; // storage is switched off: the system's own choice stands
    }
  };
  const theme = kept("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  const language = kept("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
})();
