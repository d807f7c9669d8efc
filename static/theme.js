// Sets the stored theme before anything is drawn; without one the system's choice holds.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage is forbidden here: the system's choice holds
}
