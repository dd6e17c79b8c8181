import { FilePath, Secret } from '@gatehouse/service-kit'
import { type Static, Type } from 'typebox'

export const EVENT_TYPES = ['issued', 'renewed', 'failing', 'expiring'] as const

const WebhookSchema = Type.Object(
  {
    url: Type.String({
      minLength: 1,
      description: 'Where events are posted to: https, or http on loopback or with `allowHttp`.',
    }),
    secret: Secret({
      minLength: 16,
      description: 'Key of the HMAC in `X-Gatehouse-Signature`, at least 16 characters.',
    }),
    events: Type.Array(Type.Enum([...EVENT_TYPES]), {
      minItems: 1,
      default: [...EVENT_TYPES],
      description: `Which of ${EVENT_TYPES.join(', ')}.`,
    }),
    caFile: Type.Optional(
      FilePath({
        description: 'PEM certificates to trust, where that of the receiver is private.',
      }),
    ),
    allowHttp: Type.Boolean({ default: false, description: 'Whether `url` may be plain http.' }),
  },
  {
    description: 'Is told of certificates by POST requests, at least once each, for up to 7 days.',
  },
)

export type WebhookConfig = Static<typeof WebhookSchema>

export const EventsSchema = Type.Object({ webhook: Type.Optional(WebhookSchema) })
