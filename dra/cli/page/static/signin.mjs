// The form in which the users of a cluster sign in, with a token of their own.
import { html, useState } from "./lib.mjs";
import { namespace, signIn } from "./session.mjs";

export function SignIn({ why, onDone }) {
  const [text, setText] = useState(why);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const { token, ns } = event.target.elements;
    setBusy(true);
    try {
      await signIn(token.value.trim(), ns.value.trim());
      onDone();
    } catch (error) {
      setText(error.message);
      setBusy(false);
    }
  };
  return html`<div class="page-scroll"><form class="sign-in" onSubmit=${submit} autocomplete="off">
    <h1>Sign in</h1>
    <p class="muted">You see what your token may list and watch, and change nothing. The token stays in this tab.</p>
    <label for="token">Token</label>
    <input id="token" type="password" autocomplete="off" spellcheck="false" required aria-describedby="sign-in-how" />
    <p id="sign-in-how" class="muted">From <code>kubectl create token ACCOUNT --audience=dra-reserve-page</code>, or from your administrator.</p>
    <label for="ns">Namespace <span class="muted">(if you have no rights in all namespaces)</span></label>
    <input id="ns" type="text" autocomplete="off" spellcheck="false" value=${namespace()} />
    <p role="alert" class="state red">${text}</p>
    <button type="submit" disabled=${busy}>Sign in</button></form></div>`;
}
