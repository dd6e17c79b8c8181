declare module 'oidc-provider' {
  interface Provider {
    readonly Client: {
      find(
        id: string,
      ): Promise<{ backchannelLogout(sub: string, sid: string): Promise<void> } | undefined>
    }
  }
}
