import { TESTED } from './proxies/index.ts'
import type { RequestHeaders, Shape } from './proxies/kit.ts'

/** What the browser of somebody who opens a page sends; proxies pass it on. */
export const BROWSER = {
  'User-Agent': 'Mozilla/5.0',
  Accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
  'Accept-Encoding': 'gzip, br',
  'Accept-Language': 'en',
  'Sec-Fetch-Mode': 'navigate',
}

export type { RequestHeaders, Shape }

/** The exact requests of all proxies, those of Traefik first. */
export const SHAPES: readonly Shape[] = [
  ...new Set([TESTED.traefik, ...Object.values(TESTED)].flatMap(({ shapes }) => shapes)),
]
