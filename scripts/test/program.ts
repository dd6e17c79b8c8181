import { join } from 'node:path'
import { ROOT } from './markdown.ts'

/**
 * The arguments with which Node runs a service: what images hold if `GATEHOUSE_BUNDLES` is set, as
 * `npm test` does, else its source.
 */
export function programOf(service: 'cert-service' | 'forward-auth'): readonly string[] {
  return process.env.GATEHOUSE_BUNDLES
    ? [join(ROOT, 'dist', service, 'main.js')]
    : ['--conditions=@gatehouse/source', join(ROOT, 'services', service, 'src/main.ts')]
}
