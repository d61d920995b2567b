// What a script would try that a fault of the pages let in; the page of the console runs it by the test's own way.
async () => {
  const found = {};
  const attempt = async (name, work) => {
    try {
      found[name] = await work();
    } catch {
      found[name] = "refused";
    }
  };
  await attempt("markup", () => {
    document.body.innerHTML = "<img src=x onerror=window.fallen=1>";
    return "taken";
  });
  await attempt("text", () => {
    const script = document.createElement("script");
    script.text = "window.fallen=1";
    document.head.append(script);
    return "taken";
  });
  await attempt("handler", () => {
    document.body.setAttribute("onclick", "window.fallen=1");
    document.body.click();
    return window.fallen ?? "quiet";
  });
  await attempt("fetch", () => fetch("http://127.0.0.1:9/?stolen").then(() => "sent"));
  await attempt("cookie", () => document.cookie);
  await attempt("storage", () => JSON.stringify({ ...localStorage, ...sessionStorage }));
  found.fallen = window.fallen ?? null;
  return found;
}
