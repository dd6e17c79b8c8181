/** 72 bits of a signature, and short enough for V8 to copy: hashing a part of a string is slow. */
const ID_CHARACTERS = 12

interface Kept {
  readonly token: string
}

/**
 * Keeps what was made of tokens, in two generations: a full one takes the place of the older one,
 * which is forgotten as a whole. So nothing is ranked at a hit, and little is done for an entry.
 *
 * @param maxEntries - of both generations
 * @param maxCharacters - of all tokens of both
 */
export function createKeptTokens<Entry extends Kept>(maxEntries: number, maxCharacters: number) {
  let young = new Map<string, Entry>()
  let old = new Map<string, Entry>()
  let characters = 0

  function set(entry: Entry): void {
    if (young.size >= maxEntries / 2 || characters >= maxCharacters / 2) {
      old = young
      young = new Map()
      characters = 0
    }
    young.set(idOf(entry.token), entry)
    characters += entry.token.length
  }

  /** The end of the signature finds the entry, the whole token decides: hashing it all costs more. */
  function get(token: string): Entry | undefined {
    const id = idOf(token)
    const entry = young.get(id)
    if (entry?.token === token) return entry
    const older = old.get(id)
    if (older?.token !== token) return undefined
    set(older)
    return older
  }

  return { get, set }
}

function idOf(token: string): string {
  return token.slice(-ID_CHARACTERS)
}
