"use strict";

// Draws the API document with Swagger UI; only what the page's content policy allows is asked of it.
const dark = matchMedia("(prefers-color-scheme: dark)");
function follow() {
  const chosen = document.documentElement.dataset.theme;
  document.documentElement.classList.toggle("dark-mode", chosen ? chosen === "dark" : dark.matches);
}
follow();
dark.addEventListener("change", follow);

const place = document.getElementById("api-docs");
SwaggerUIBundle({
  url: place.dataset.document,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  persistAuthorization: false,
  syntaxHighlight: { activated: false },
});
