// Who looks: on the user's machine, the key in the fragment of the link; in a cluster, a token that the user types.
// Both stay in this tab and go to the server in a header only.
const STORED = "dra-reserve-key";
const NAMESPACE = "dra-reserve-namespace";
const KEY = /^#([\w-]{43})$/;

// Whether users sign in with a token of the cluster.
export const signsIn = document.documentElement.dataset.signIn === "token";

export function takeKey() {
  const found = KEY.exec(location.hash);
  if (found && !signsIn) {
    sessionStorage.setItem(STORED, found[1]);
    history.replaceState(null, "", "#/");
  }
}

export const isSignedIn = () => !signsIn || sessionStorage.getItem(STORED) !== null;
export const namespace = () => sessionStorage.getItem(NAMESPACE) ?? "";

export function signOut() {
  sessionStorage.removeItem(STORED);
  location.reload();
}

export function headers(more) {
  return { Authorization: `Bearer ${sessionStorage.getItem(STORED) ?? ""}`, ...more };
}

// The address of data, for the namespace that the user has signed in to.
export const address = (path) => (namespace() ? `${path}${path.includes("?") ? "&" : "?"}ns=${encodeURIComponent(namespace())}` : path);

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export async function raiseForStatus(response) {
  if (response.status === 401 || response.status === 403) throw new Refused(response.status, await response.text());
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
}

// Fetches JSON; throws Refused where trying again cannot help.
export async function getJson(path) {
  const response = await fetch(address(path), { headers: headers(), cache: "no-store" });
  await raiseForStatus(response);
  return response.json();
}

// Asks the server whether the token is valid, and keeps it if it is; throws Refused, or Error if it is not known.
export async function signIn(token, wanted) {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Refused(401, "this is not a token");
  sessionStorage.setItem(STORED, token);
  sessionStorage.setItem(NAMESPACE, wanted);
  try {
    return await getJson("api/session");
  } catch (error) {
    sessionStorage.removeItem(STORED);
    throw error;
  }
}
