import t from 'tap'
import { everyPage } from '../helpers/pages.ts'
import { openTab } from './tabs.ts'

/** Names as people, groups, keys and hosts have them, and longer. */
const NAMES = {
  latin: `${'Donaudampfschifffahrtselektrizitätenhauptbetriebswerk'.repeat(6)}`.slice(0, 300),
  'right to left': 'خادم الشهادات في المركز الرئيسي '.repeat(10).slice(0, 300).trim(),
  'right to left without spaces': 'שלוםעולם'.repeat(40).slice(0, 300),
  chinese: '證書伺服器'.repeat(60),
  cyrillic: 'сертификат'.repeat(30),
  'a SPIFFE ID': `spiffe://trust.example.com/${'workload/'.repeat(30)}`.slice(0, 300),
  'a host in A-labels': `${'xn--bcher-kva.'.repeat(21)}test`,
}

t.test('names in four scripts and of 300 characters fit every page of a phone', async (t) => {
  const { context, tab } = await openTab({ viewport: { width: 360, height: 800 } })
  for (const [what, name] of Object.entries(NAMES))
    for (const [page, { html }] of Object.entries(everyPage(name, 'en'))) {
      await tab.setContent(html)
      const width = (await tab.evaluate('document.documentElement.scrollWidth')) as number
      t.ok(width <= 360, `${what}, ${page}: ${width} pixels`)
    }
  await context.close()
})
