// The theme's search box, with the roles that its parts have: a dialog, a field, and a list of results.
import { join } from 'node:path'

const WORDS = join(import.meta.dirname, 'theme/words.ts')

const CHANGES: readonly (readonly [before: RegExp, after: string])[] = [
  [
    /role="button"\s+:aria-owns="[^"]+"\s+aria-expanded="true"\s+aria-haspopup="listbox"\s+aria-labelledby="localsearch-label"/,
    'role="dialog" aria-modal="true" aria-label="Search"',
  ],
  [
    /aria-autocomplete="both"/,
    `aria-autocomplete="list" role="combobox" :aria-expanded="results?.length ? 'true' : 'false'"`,
  ],
  [
    /:id="'localsearch-item-' \+ index"\s+:aria-selected="[^"]+"\s+role="option"/,
    'role="presentation"',
  ],
  [
    /:aria-label="\[\.\.\.p\.titles, p\.title\]\.join\(' > '\)"/,
    `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'" role="option"`,
  ],
  [/<kbd :aria-label/g, '<kbd role="img" :aria-label'],
  // A function in the configuration of the theme would be evaluated, which the content security policy refuses.
  [/<script lang="ts" setup>/, `$&\nimport { wordOf } from '${WORDS}'`],
  [/prefix: true,/, '$& processTerm: wordOf,'],
]

export const searchBox = {
  name: 'search-box',
  enforce: 'pre' as const,
  transform(code: string, id: string): string | undefined {
    if (!id.endsWith('/VPLocalSearchBox.vue')) return
    return CHANGES.reduce((text, [before, after]) => {
      if (text.search(before) < 0) throw new Error(`VPLocalSearchBox.vue has no ${before}`)
      return text.replace(before, after)
    }, code)
  },
}
