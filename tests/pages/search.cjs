// Asks the search of a built site, as the browser does: node search.cjs SITE WORDS…; prints [words, pages] lines of JSON.
//
// The program that Material for MkDocs starts in a worker runs here with the few functions of a worker that it needs.
const fs = require("fs")
const path = require("path")

const [site, ...queries] = process.argv.slice(2)
const listeners = []
let answered
globalThis.self = globalThis
globalThis.location = { href: "http://127.0.0.1/" }
globalThis.importScripts = () => {}
globalThis.addEventListener = (kind, listener) => kind === "message" && listeners.push(listener)
globalThis.postMessage = (message) => answered(message)

const workers = path.join(site, "assets/javascripts/workers")
const program = fs.readdirSync(workers).find((name) => name.startsWith("search.") && name.endsWith(".js"))
;(0, eval)(fs.readFileSync(path.join(workers, program), "utf8"))

const [SETUP, QUERY] = [0, 2]
const send = (message) =>
  new Promise((resolve) => {
    answered = resolve
    listeners.forEach((listener) => listener({ data: message }))
  })

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"))
  await send({ type: SETUP, data: { ...index, options: { suggest: true } } })
  for (const query of queries) {
    const { data } = await send({ type: QUERY, data: query })
    const pages = data.items.map((sections) => sections[0].location.split("#")[0])
    console.log(JSON.stringify([query, [...new Set(pages)]]))
  }
}

main()
