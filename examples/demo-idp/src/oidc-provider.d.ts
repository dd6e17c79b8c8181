/** The types that are used here; the package has none. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  interface Interaction {
    readonly prompt: { readonly name: string }
    readonly params: { readonly login_hint?: string; readonly acr_values?: string }
  }
  export const interactionPolicy: {
    base(): {
      get(prompt: string): { readonly checks: { add(check: object): void } } | undefined
    }
    readonly Check: new (
      reason: string,
      description: string,
      isNeeded: (context: never) => boolean,
    ) => object
  }
  interface Grant {
    addOIDCScope(scope: string): void
    save(): Promise<string>
  }
  interface Provider {
    proxy: boolean
    readonly Grant: {
      new (of: { clientId: string; accountId: string }): Grant
      find(id: string): Promise<Grant | undefined>
    }
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: object,
    ): Promise<void>
  }
}
