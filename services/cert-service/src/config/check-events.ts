import { parseEndpointUrl } from '@gatehouse/net'
import type { Fault } from '@gatehouse/service-kit'
import type { CertServiceConfig } from './schema.ts'

/** The faults of `events` that their schema cannot tell. */
export function checkEvents({ events: { webhook } }: CertServiceConfig): readonly Fault[] {
  if (!webhook) return []
  try {
    parseEndpointUrl(webhook.url, webhook)
    return []
  } catch (error) {
    return [{ path: '/events/webhook/url', message: (error as Error).message }]
  }
}
