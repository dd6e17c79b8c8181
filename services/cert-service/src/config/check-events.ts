import { parseEndpointUrl } from '@gatehouse/net'
import { type Fault, faultOf } from '@gatehouse/service-kit'
import type { CertServiceConfig } from './schema.ts'

/** The faults of `events` that their schema cannot tell. */
export function checkEvents({ events: { webhook } }: CertServiceConfig): readonly Fault[] {
  if (!webhook) return []
  const { url, allowHttp } = webhook
  return faultOf('/events/webhook/url', () => parseEndpointUrl(url, { allowHttp }))
}
