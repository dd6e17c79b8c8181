/** Pages that are only made for a picture. */

const FONT = 'system-ui, sans-serif'
const SCHEMES = `
  :root { color-scheme: light dark; --card: #fff; --line: #d5d9e2; --ink: #15171c; --muted: #6b7280 }
  @media (prefers-color-scheme: dark) {
    :root { --card: #16191f; --line: #323843; --ink: #f1f3f6; --muted: #8a92a3 }
  }
  * { box-sizing: border-box; margin: 0 }`

/** Codes of a terminal for colors and weights, as styles. Others, such as the end of one, end all. */
const STYLES: Readonly<Record<string, string>> = {
  1: 'font-weight:700',
  2: 'color:var(--muted)',
  31: 'color:#d1443c',
  32: 'color:#2c9a5b',
  33: 'color:#b9821b',
  34: 'color:#5a6ce6',
  36: 'color:#2491a8',
}
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is what terminals are told with.
const CODES = /\x1b\[([\d;]*)([A-Za-z])/

/** A window of a terminal in which `npm start` said this. */
export function terminalPage(printed: string): string {
  const [first = '', ...rest] = printed.replace(/^\n+/, '').trimEnd().split(CODES)
  let spans = escapeHtml(first)
  for (let n = 0; n < rest.length; n += 3) {
    const [code = '', kind, text = ''] = rest.slice(n, n + 3)
    const style = kind === 'm' ? (STYLES[code] ?? '') : ''
    spans += `<span style="${style}">${escapeHtml(text)}</span>`
  }
  return `<!doctype html><style>${SCHEMES}
    body { padding: 0 }
    div { border: 1px solid var(--line); border-radius: 12px; background: var(--card); color: var(--ink); overflow: hidden }
    header { display: flex; gap: 8px; padding: 12px 16px; border-bottom: 1px solid var(--line) }
    i { width: 12px; height: 12px; border-radius: 50%; background: var(--line) }
    pre { padding: 16px 20px 20px; font: 14px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
    b { color: #5a6ce6 }
  </style><div><header><i></i><i></i><i></i></header><pre><b>$</b> npm start\n\n${spans}</pre></div>`
}

/** The inventory, with the page where people sign in and their account in front of it. */
export function overviewPage(images: Readonly<Record<string, Buffer>>): string {
  const picture = (name: string) =>
    `<img class="${name}" src="data:image/webp;base64,${images[name]?.toString('base64')}">`
  return `<!doctype html><style>${SCHEMES}
    body { position: relative; height: 765px; font-family: ${FONT} }
    img { position: absolute; border: 1px solid var(--line); border-radius: 14px; box-shadow: 0 18px 40px -16px #0006 }
    .inventory { top: 8px; left: 8px; width: 1040px }
    .sign-in-phone { top: 135px; right: 24px; width: 292px }
  </style><body>${picture('inventory')}${picture('sign-in-phone')}`
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
}
