// The key of this session: it comes in the fragment of the link and stays in this tab.
const STORED = "dra-reserve-key";
const KEY = /^#([\w-]{43})$/;

export function takeKey() {
  const found = KEY.exec(location.hash);
  if (found) {
    sessionStorage.setItem(STORED, found[1]);
    history.replaceState(null, "", "#/");
  }
}

export function headers(more) {
  return { Authorization: `Bearer ${sessionStorage.getItem(STORED) ?? ""}`, ...more };
}

export class Refused extends Error {}

// Fetches JSON; throws Refused where trying again cannot help.
export async function getJson(path) {
  const response = await fetch(path, { headers: headers(), cache: "no-store" });
  if (response.status === 401 || response.status === 403) throw new Refused(await response.text());
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}
